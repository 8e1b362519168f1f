#include "server/anthropic/blocks.h"

namespace kvick::server {

ApiResult<std::string> required_string(Fields& fields, std::string_view name) {
  if (fields.find(name) == nullptr)
    return bad_field(fields.path(name), "{} is missing", fields.path(name));
  return fields.get_string(name, "");
}

ApiError wrong_block(const Fields& fields, std::string_view type, std::string_view takes) {
  const std::string path = fields.path("type");
  if (type == "image" || type == "document")
    return bad_field(path, "{} is {}, but this server takes no {}s; send text", path,
                     in_quotes(type), type);
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

}  // namespace kvick::server
