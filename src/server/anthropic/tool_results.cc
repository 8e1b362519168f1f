#include "server/anthropic/tool_results.h"

#include "server/anthropic/blocks.h"
#include "server/request/left_out.h"

namespace kvick::server {
namespace {

// Returns the tool's function, or null if there is no such tool.
const Json* function_of(const Tools& tools, const std::string& name) {
  for (const Json* some : {&tools.list, &tools.deferred})
    for (const Json& tool : *some)
      if (tool["function"]["name"] == name) return &tool["function"];
  return nullptr;
}

}  // namespace

// Describes a tool in the form in which Claude Code's tool search announces tools to the model.
std::string ToolResults::reference(const std::string& name) {
  const Json* const function = told_.insert(name).second ? function_of(tools_, name) : nullptr;
  return "<function>" + to_text(function ? *function : Json({{"name", name}})) + "</function>";
}

ApiResult<std::string> ToolResults::read_block(Fields& block) {
  KVICK_TRY(const std::string type, required_string(block, "type"));
  if (type == "text") return read_text_block(block);
  std::string text = left_out(type);
  if (type == "tool_reference") {
    KVICK_TRY(const std::string name, required_string(block, "tool_name"));
    text = reference(name);
  } else if (type == "search_result") {
    KVICK_TRY(text, read_search_result(block));
  } else if (type == "document" && has_text(block)) {
    const auto read_content = [this](const Fields& outer, const Json& content,
                                     const std::string& path) {
      return read(outer, content, path);
    };
    KVICK_TRY(text, read_document(block, read_content));
  } else if (text.empty()) {
    return wrong_block(block, type,
                       "text, image, document, search_result and tool_reference blocks");
  }
  block.ignore({"cache_control"});
  KVICK_TRY_VOID(block.check_rest());
  return text;
}

ApiResult<std::vector<std::string>> ToolResults::read(const Fields& outer, const Json& content,
                                                      const std::string& path) {
  if (!content.is_array()) return read_texts(outer, content, path);
  std::vector<std::string> texts;
  size_t index = 0;
  for (const Json& given : content) {
    KVICK_TRY(Fields block, outer.inside(given, fmt::format("{}[{}]", path, index++)));
    KVICK_TRY(std::string text, read_block(block));
    if (!text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace kvick::server
