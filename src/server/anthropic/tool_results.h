#pragma once
// The results of tools in an Anthropic request, as text.

#include <set>
#include <string>
#include <vector>

#include "server/answer/tools.h"

namespace kvick::server {

class ToolResults {
 public:
  explicit ToolResults(const Tools& tools) : tools_(tools) {}

  // Returns the texts of a result that are not empty. Pictures and documents without text are
  // replaced by a note, and their fields count as unknown. A tool_reference becomes the description
  // of the tool that it names; so the model learns of the tool here, and the prompt before it stays
  // unchanged. path: the content's name in errors.
  ApiResult<std::vector<std::string>> read(const Fields& outer, const Json& content,
                                           const std::string& path);

 private:
  ApiResult<std::string> read_block(Fields& block);
  std::string reference(const std::string& name);

  const Tools& tools_;
  // Tools described already: each is described once, so that a small request cannot become a large
  // prompt.
  std::set<std::string> told_;
};

}  // namespace kvick::server
