#include "server/openai/form_fields.h"

namespace kvick::server {
namespace {

using base::Done;

Json regex_format(std::string text) { return {{"type", "regex"}, {"value", std::move(text)}}; }
Json grammar_format(std::string text) {
  return {{"type", "grammar"}, {"grammar", std::move(text)}};
}

ApiResult<std::string> form_text(const Json& value, const std::string& name) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    return bad_field(name, "{} must be a string that is not empty", name);
  return value.get<std::string>();
}

// Reads the regex of Text Generation Inference ("value") or the grammar of Fireworks.
ApiStatus read_text_format(Fields& format, const std::string& type, GenerationRequest& request) {
  const std::string inside = type == "regex" ? "value" : "grammar";
  const Json* text = format.find(type == "regex" ? "value" : "grammar");
  KVICK_TRY(std::string given, form_text(text == nullptr ? Json() : *text, format.path(inside)));
  request.response_format =
      type == "regex" ? regex_format(std::move(given)) : grammar_format(std::move(given));
  return format.check_rest();
}

// Reads a schema, which vLLM's clients send as JSON or as a string of JSON.
ApiResult<Json> read_schema(const Json& value, const std::string& name) {
  Json schema = value;
  if (value.is_string()) {
    auto parsed = parse_json(value.get_ref<const std::string&>());
    if (!parsed.ok()) return bad_field(name, "{} cannot be read: {}", name, parsed.error().message);
    schema = *std::move(parsed);
  }
  if (!schema.is_object() && !schema.is_boolean())
    return bad_field(name, "{} must be a JSON schema, or one as text", name);
  return schema;
}

// Reads a format of JSON. Its schema is inside json_schema, as for OpenAI, or beside the type,
// where clients of llama-server put it for both types.
ApiStatus read_json_format(Fields& format, const std::string& type, const Json& value,
                           GenerationRequest& request) {
  const Json* wrapped = type == "json_schema" ? format.find("json_schema") : nullptr;
  const Json* beside = wrapped == nullptr ? format.find("schema") : nullptr;
  if (beside != nullptr) {
    KVICK_TRY(Json schema, read_schema(*beside, format.path("schema")));
    KVICK_TRY_VOID(format.check_rest());
    request.response_format = {{"type", "json_schema"},
                               {"json_schema", {{"schema", std::move(schema)}}}};
    return Done{};
  }
  if (type == "json_schema") {
    if (wrapped == nullptr || !wrapped->is_object() || !wrapped->contains("schema"))
      return bad_field(format.path("json_schema"), "{} must be an object with a schema",
                       format.path("json_schema"));
    KVICK_TRY(Fields inner, format.inside(*wrapped, format.path("json_schema")));
    inner.ignore({"name", "description", "schema", "strict"});
    KVICK_TRY_VOID(inner.check_rest());
  }
  KVICK_TRY_VOID(format.check_rest());
  request.response_format = value;
  return Done{};
}

ApiStatus read_format(Fields& fields, GenerationRequest& request) {
  const Json* value = fields.find("response_format");
  if (value == nullptr) return Done{};
  KVICK_TRY(Fields format, fields.inside(*value, "response_format"));
  KVICK_TRY(const std::string type, format.get_string("type", ""));
  if (type == "text") return format.check_rest();
  if (type == "regex" || type == "grammar") return read_text_format(format, type, request);
  if (type == "json_object" || type == "json_schema")
    return read_json_format(format, type, *value, request);
  return bad_field("response_format.type",
                   "response_format.type must be \"text\", \"json_object\", \"json_schema\", "
                   "\"grammar\" or \"regex\"");
}

ApiStatus set_format(const std::string& name, Json format, GenerationRequest& request) {
  if (!request.response_format.is_null())
    return bad_field(name, "{} and {} exclude each other", name, request.format_field);
  request.response_format = std::move(format);
  request.format_field = name;
  return Done{};
}

ApiStatus set_schema(const Json* value, const std::string& name, GenerationRequest& request) {
  if (value == nullptr) return Done{};
  KVICK_TRY(Json schema, read_schema(*value, name));
  return set_format(
      name, {{"type", "json_schema"}, {"json_schema", {{"schema", std::move(schema)}}}}, request);
}

ApiStatus set_regex(const Json* value, const std::string& name, GenerationRequest& request) {
  if (value == nullptr) return Done{};
  KVICK_TRY(std::string text, form_text(*value, name));
  return set_format(name, regex_format(std::move(text)), request);
}

ApiStatus set_grammar(const Json* value, const std::string& name, GenerationRequest& request) {
  if (value == nullptr) return Done{};
  KVICK_TRY(std::string text, form_text(*value, name));
  return set_format(name, grammar_format(std::move(text)), request);
}

ApiStatus set_choice(const Json* value, const std::string& name, GenerationRequest& request) {
  if (value == nullptr) return Done{};
  if (!value->is_array() || value->empty())
    return bad_field(name, "{} must be a list of strings, at least one", name);
  for (const Json& one : *value)
    if (!one.is_string() || one.get_ref<const std::string&>().empty())
      return bad_field(name, "{} must be a list of strings, none of them empty", name);
  return set_format(name, {{"type", "choice"}, {"choice", *value}}, request);
}

// Reads vLLM's newer field for all forms.
ApiStatus read_structured(Fields& fields, GenerationRequest& request) {
  const Json* value = fields.find("structured_outputs");
  if (value == nullptr) return Done{};
  KVICK_TRY(Fields forms, fields.inside(*value, "structured_outputs"));
  KVICK_TRY_VOID(set_schema(forms.find("json"), "structured_outputs.json", request));
  KVICK_TRY_VOID(set_regex(forms.find("regex"), "structured_outputs.regex", request));
  KVICK_TRY_VOID(set_choice(forms.find("choice"), "structured_outputs.choice", request));
  KVICK_TRY_VOID(set_grammar(forms.find("grammar"), "structured_outputs.grammar", request));
  KVICK_TRY(const bool object, forms.get_bool("json_object", false));
  if (object)
    KVICK_TRY_VOID(
        set_format("structured_outputs.json_object", {{"type", "json_object"}}, request));
  return forms.check_rest();
}

}  // namespace

ApiStatus read_form_fields(Fields& fields, GenerationRequest& request) {
  KVICK_TRY_VOID(read_format(fields, request));
  KVICK_TRY_VOID(set_schema(fields.find("guided_json"), "guided_json", request));
  KVICK_TRY_VOID(set_schema(fields.find("json_schema"), "json_schema", request));
  KVICK_TRY_VOID(set_regex(fields.find("guided_regex"), "guided_regex", request));
  KVICK_TRY_VOID(set_choice(fields.find("guided_choice"), "guided_choice", request));
  KVICK_TRY_VOID(set_grammar(fields.find("guided_grammar"), "guided_grammar", request));
  KVICK_TRY_VOID(set_regex(fields.find("regex"), "regex", request));
  KVICK_TRY_VOID(set_grammar(fields.find("ebnf"), "ebnf", request));
  // Clients of llama-server send an empty grammar for none.
  const Json* grammar = fields.find("grammar");
  if (grammar != nullptr && *grammar != "")
    KVICK_TRY_VOID(set_grammar(grammar, "grammar", request));
  return read_structured(fields, request);
}

}  // namespace kvick::server
