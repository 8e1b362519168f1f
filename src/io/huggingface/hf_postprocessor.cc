#include "io/huggingface/hf_postprocessor.h"

#include <utility>

#include "io/file/builder.h"

namespace kvick::io {
namespace {

// Returns the post-processor's parts, with a Sequence expanded.
base::Result<std::vector<JsonObject>> parts_of(const JsonObject& root) {
  std::vector<JsonObject> parts;
  if (!root.find("post_processor")) return parts;
  KVICK_TRY(const JsonObject outer, root.get_object("post_processor"));
  if (!outer.find("processors")) return std::vector<JsonObject>{outer};
  KVICK_TRY(const simdjson::dom::array inner, outer.get_array("processors"));
  for (const Json element : inner) {
    KVICK_TRY(JsonObject part, JsonObject::from(element, outer.label("processors")));
    parts.push_back(std::move(part));
  }
  return parts;
}

// Looks up what a token of a template stands for.
base::Result<TemplateToken> read_token(const JsonObject& processor, const JsonObject& item) {
  KVICK_TRY(const JsonObject token, item.get_object("SpecialToken"));
  TemplateToken out;
  KVICK_TRY(out.name, token.get_string("id"));
  if (!processor.find("special_tokens")) return out;
  KVICK_TRY(const JsonObject known, processor.get_object("special_tokens"));
  if (!known.find(out.name)) return out;
  KVICK_TRY(const JsonObject special, known.get_object(out.name));
  KVICK_TRY(const simdjson::dom::array ids, special.get_array("ids"));
  for (const Json id : ids)
    if (id.get(out.ids.emplace_back()) != simdjson::SUCCESS)
      return base::fail("{} must hold whole numbers, not negative", special.label("ids"));
  return out;
}

// Reads ["[CLS]", 101].
base::Result<TemplateToken> named_pair(const JsonObject& processor, std::string_view field) {
  KVICK_TRY(const simdjson::dom::array pair, processor.get_array(field));
  TemplateToken out;
  std::string_view name;
  if (pair.size() != 2 || pair.at(0).get(name) != simdjson::SUCCESS ||
      pair.at(1).get(out.ids.emplace_back()) != simdjson::SUCCESS)
    return base::fail("{} must hold a token's name and its number", processor.label(field));
  out.name = name;
  return out;
}

base::Status<> read_template(const JsonObject& processor, PostProcessor& out) {
  KVICK_TRY(const simdjson::dom::array single, processor.get_array("single"));
  bool text_seen = false;
  for (const Json element : single) {
    KVICK_TRY(const JsonObject item, JsonObject::from(element, processor.label("single")));
    if (!item.find("SpecialToken")) {
      text_seen = true;
      continue;
    }
    KVICK_TRY(TemplateToken token, read_token(processor, item));
    (text_seen ? out.behind : out.before).push_back(std::move(token));
  }
  if (!processor.find("pair")) return base::Done{};
  KVICK_TRY(const simdjson::dom::array pair, processor.get_array("pair"));
  size_t texts = 0;
  for (const Json element : pair) {
    KVICK_TRY(const JsonObject item, JsonObject::from(element, processor.label("pair")));
    if (!item.find("SpecialToken"))
      ++texts;
    else if (texts == 1)
      ++out.between;
  }
  return base::Done{};
}

}  // namespace

base::Result<PostProcessor> read_post_processor(const JsonObject& root) {
  PostProcessor out;
  KVICK_TRY(const std::vector<JsonObject> parts, parts_of(root));
  bool found = false;
  for (const JsonObject& processor : parts) {
    KVICK_TRY(const std::string type, processor.get_string("type"));
    if (type == "ByteLevel") continue;  // affects offsets only
    const bool of_roberta = type == "RobertaProcessing";
    const bool of_bert = type == "BertProcessing" || of_roberta;
    if (type != "TemplateProcessing" && !of_bert)
      return base::fail(
          "{} is {}; kvick knows ByteLevel, TemplateProcessing, BertProcessing and "
          "RobertaProcessing",
          processor.label("type"), in_quotes(type));
    if (std::exchange(found, true))
      return base::fail("{} has more than one {}; one is read", root.label("post_processor"), type);
    if (of_bert) {
      KVICK_TRY(out.before.emplace_back(), named_pair(processor, "cls"));
      KVICK_TRY(out.behind.emplace_back(), named_pair(processor, "sep"));
      out.between = of_roberta ? 2 : 1;
      continue;
    }
    KVICK_TRY_VOID(read_template(processor, out));
  }
  return out;
}

}  // namespace kvick::io
