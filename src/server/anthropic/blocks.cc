#include "server/anthropic/blocks.h"

namespace kvick::server {
namespace {

std::string in_lines(std::vector<std::string> texts) {
  std::erase(texts, "");
  return fmt::format("{}", fmt::join(texts, "\n"));
}

bool is_text(std::string_view source_type) {
  return source_type == "text" || source_type == "content";
}

}  // namespace

ApiResult<std::string> required_string(Fields& fields, std::string_view name) {
  if (fields.find(name) == nullptr)
    return bad_field(fields.path(name), "{} is missing", fields.path(name));
  return fields.get_string(name, "");
}

ApiError wrong_block(const Fields& fields, std::string_view type, std::string_view takes) {
  const std::string path = fields.path("type");
  if (type == "image")
    return bad_field(path, "{} is \"image\", but this server takes no images; send text", path);
  return bad_field(path, "{} is {}; here the server takes {}", path, in_quotes(type), takes);
}

ApiResult<std::string> read_text_block(Fields& fields) {
  KVICK_TRY(std::string text, required_string(fields, "text"));
  fields.ignore({"cache_control", "citations"});
  KVICK_TRY_VOID(fields.check_rest());
  return text;
}

ApiResult<std::vector<std::string>> read_texts(const Fields& outer, const Json& content,
                                               const std::string& path) {
  std::vector<std::string> texts;
  if (content.is_string()) {
    if (content != "") texts.push_back(content.get<std::string>());
    return texts;
  }
  if (!content.is_array())
    return bad_field(path, "{} must be a string or a list of text blocks", path);
  size_t index = 0;
  for (const Json& given : content) {
    KVICK_TRY(Fields block, outer.inside(given, fmt::format("{}[{}]", path, index++)));
    KVICK_TRY(const std::string type, required_string(block, "type"));
    if (type != "text") return wrong_block(block, type, "text blocks only");
    KVICK_TRY(std::string text, read_text_block(block));
    if (!text.empty()) texts.push_back(std::move(text));
  }
  return texts;
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

bool has_text(Fields document) {
  const Json* const source = document.find("source");
  if (source == nullptr || !source->is_object()) return false;
  const auto type = source->find("type");
  return type != source->end() && type->is_string() && is_text(type->get_ref<const std::string&>());
}

ApiResult<std::string> read_document(Fields& block, ReadContent read) {
  KVICK_TRY(std::string title, block.get_string("title", ""));
  KVICK_TRY(std::string context, block.get_string("context", ""));
  const Json* const given = block.find("source");
  if (given == nullptr)
    return bad_field(block.path("source"), "{} is missing", block.path("source"));
  KVICK_TRY(Fields source, block.inside(*given, block.path("source")));
  KVICK_TRY(const std::string type, required_string(source, "type"));
  if (!is_text(type))
    return bad_field(source.path("type"),
                     "{} is {}, but this server reads only documents of text; send the text in a "
                     "source of type text",
                     source.path("type"), in_quotes(type));
  const char* const name = type == "text" ? "data" : "content";
  const Json* const content = source.find(name);
  if (content == nullptr) return bad_field(source.path(name), "{} is missing", source.path(name));
  KVICK_TRY(const std::vector<std::string> texts, read(source, *content, source.path(name)));
  source.ignore({"media_type"});
  KVICK_TRY_VOID(source.check_rest());
  block.ignore({"citations"});
  return in_lines({std::move(title), std::move(context), in_lines(texts)});
}

}  // namespace kvick::server
