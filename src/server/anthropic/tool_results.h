#pragma once
// What tools of an Anthropic request have answered, as text.

#include <set>
#include <string>
#include <vector>

#include "server/answer/tools.h"

namespace kvick::server {

class ToolResults {
 public:
  explicit ToolResults(const Tools& tools) : tools_(tools) {}

  // The texts of a result that are not empty. Pictures and documents that are not text are left
  // out, and a text says so; their fields are unknown ones. A tool_reference is the tool that it
  // names, whose result tells the model of it: so the prompt before it stays as it was. path: of
  // the content.
  ApiResult<std::vector<std::string>> read(const Fields& outer, const Json& content,
                                           const std::string& path);

 private:
  ApiResult<std::string> read_block(Fields& block);
  ApiResult<std::string> read_document(Fields& block);  // with a source of text
  std::string reference(const std::string& name);

  const Tools& tools_;
  // Each tool is described once, so that a small request cannot become a large prompt.
  std::set<std::string> told_;
};

}  // namespace kvick::server
