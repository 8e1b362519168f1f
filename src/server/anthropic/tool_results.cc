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

// Returns whether the document's source is text rather than a file. Takes a copy, so that find()
// does not mark an omitted source as known.
bool has_text(Fields document) {
  const Json* const source = document.find("source");
  if (source == nullptr || !source->is_object()) return false;
  const auto type = source->find("type");
  return type != source->end() && (*type == "text" || *type == "content");
}

std::string in_lines(std::vector<std::string> texts) {
  std::erase(texts, "");
  return fmt::format("{}", fmt::join(texts, "\n"));
}

ApiResult<std::string> read_search_result(Fields& block) {
  KVICK_TRY(std::string title, required_string(block, "title"));
  KVICK_TRY(std::string source, required_string(block, "source"));
  const std::string path = block.path("content");
  const Json* const content = block.find("content");
  if (content == nullptr) return bad_field(path, "{} is missing", path);
  KVICK_TRY(const std::vector<std::string> texts, read_texts(block, *content, path));
  block.ignore({"citations"});
  return in_lines({std::move(title), std::move(source), in_lines(texts)});
}

}  // namespace

ApiResult<std::string> ToolResults::read_document(Fields& block) {
  KVICK_TRY(std::string title, block.get_string("title", ""));
  KVICK_TRY(std::string context, block.get_string("context", ""));
  KVICK_TRY(Fields source, block.inside(*block.find("source"), block.path("source")));
  KVICK_TRY(const std::string type, required_string(source, "type"));
  const char* const name = type == "text" ? "data" : "content";
  const Json* const content = source.find(name);
  if (content == nullptr) return bad_field(source.path(name), "{} is missing", source.path(name));
  KVICK_TRY(const std::vector<std::string> texts, read(source, *content, source.path(name)));
  source.ignore({"media_type"});
  KVICK_TRY_VOID(source.check_rest());
  block.ignore({"citations"});
  return in_lines({std::move(title), std::move(context), in_lines(texts)});
}

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
    KVICK_TRY(text, read_document(block));
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
