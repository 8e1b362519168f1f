#include <algorithm>
#include <array>

#include "server/openai/chat_request.h"
#include "server/request/left_out.h"

namespace kvick::server {
namespace {

using base::Done;

constexpr std::array kRoles = {"system", "user", "assistant", "tool"};

ApiResult<std::string> read_part(const Fields& outer, const Json& part, const std::string& path,
                                 std::string_view role) {
  KVICK_TRY(Fields fields, outer.inside(part, path));
  KVICK_TRY(const std::string type, fields.get_string("type", ""));
  if (std::string text = left_out(type); role == "tool" && !text.empty()) {
    KVICK_TRY_VOID(fields.check_rest());
    return text;
  }
  const bool refuses = role == "assistant" && type == "refusal";
  if (type != "text" && !refuses)
    return bad_field(fields.path("type"), "{} is {}, but this server takes only text",
                     fields.path("type"), in_quotes(type));
  KVICK_TRY(std::string text, fields.get_string(refuses ? "refusal" : "text", ""));
  KVICK_TRY_VOID(fields.check_rest());
  return text;
}

bool are_thoughts(const Json& part) {
  if (!part.is_object() || !part.contains("type")) return false;
  return part["type"] == "thinking" || part["type"] == "redacted_thinking";
}

// Reads a part with thoughts. Gateways send those of Anthropic's clients so: LiteLLM in `thinking`,
// Envoy's in `text`. Redacted ones, which only their server can read, have no text.
ApiStatus read_thoughts(const Fields& outer, const Json& part, const std::string& path,
                        std::string& thoughts) {
  KVICK_TRY(Fields fields, outer.inside(part, path));
  KVICK_TRY(const std::string other, fields.get_string("text", ""));
  KVICK_TRY(const std::string text, fields.get_string("thinking", other));
  fields.ignore({"type", "signature", "data", "redactedContent", "closed"});
  KVICK_TRY_VOID(fields.check_rest());
  if (!text.empty()) thoughts += (thoughts.empty() ? "" : "\n") + text;
  return Done{};
}

// Reads the content as a string or null; adds the thoughts among its parts to `thoughts`.
ApiResult<Json> read_content(Fields& message, std::string_view role, std::string& thoughts) {
  const Json* content = message.find("content");
  // OpenAI's models put their text into `refusal` when they refuse.
  if (content == nullptr && role == "assistant") content = message.find("refusal");
  const std::string path = message.path("content");
  if (content == nullptr || content->is_string()) return content ? *content : Json();
  if (!content->is_array())
    return bad_field(path, "{} must be a string or a list of parts of text", path);
  std::string text;
  size_t index = 0, pieces = 0;
  for (const Json& part : *content) {
    const std::string place = fmt::format("{}[{}]", path, index++);
    if (role == "assistant" && are_thoughts(part)) {
      KVICK_TRY_VOID(read_thoughts(message, part, place, thoughts));
      continue;
    }
    KVICK_TRY(const std::string piece, read_part(message, part, place, role));
    text += (pieces++ > 0 ? "\n" : "") + piece;
  }
  return Json(std::move(text));
}

// Moves a name to the front in time n; Json::update() takes time n per name.
void put_first(std::string_view name, Json& object) {
  Json::object_t ordered;
  auto& entries = object.get_ref<Json::object_t&>();
  for (const bool first : {true, false})
    for (auto& entry : entries)
      if ((entry.first == name) == first) ordered.push_back(std::move(entry));
  entries = std::move(ordered);
}

// Parses the arguments of a call: OpenAI sends them as JSON in a string, templates need an object.
// Arguments that max_tokens cut off become {} unless --strict-fields is set: a client sends the
// call again with every request, so refusing it would end the conversation.
void parse_arguments(Json& arguments, const std::string& path, UnknownFields& unknown) {
  if (arguments.is_null() || arguments == "") arguments = Json::object();
  if (!arguments.is_string()) return;
  auto parsed = parse_json(arguments.get_ref<const std::string&>());
  if (parsed.ok() && parsed->is_object()) {
    arguments = *std::move(parsed);
  } else if (!unknown.refused()) {
    unknown.add(path + ".function.arguments");
    arguments = Json::object();
  }
}

// Puts the function's name first: some templates write the function's fields in order, and models
// write the name first.
ApiStatus open_arguments(Json& call, const std::string& path, UnknownFields& unknown) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object() ||
      !call["function"].contains("name"))
    return bad_field(path, "{} must be an object with a function and its name", path);
  Json& arguments = call["function"]["arguments"];
  parse_arguments(arguments, path, unknown);
  if (!arguments.is_object())
    return bad_field(path, "{}.function.arguments must be a JSON object, or one in a string", path);
  put_first("name", call["function"]);
  return Done{};
}

ApiStatus open_calls(Json& message, const std::string& path, UnknownFields& unknown) {
  if (!message.contains("tool_calls")) return Done{};
  Json& calls = message["tool_calls"];
  // Some clients send an empty list with every answer, and templates take it for an answer of
  // calls.
  if (calls.is_null() || (calls.is_array() && calls.empty())) {
    message.erase("tool_calls");
    return Done{};
  }
  if (!calls.is_array()) return bad_field(path, "{}.tool_calls must be a list", path);
  for (size_t i = 0; i < calls.size(); ++i)
    KVICK_TRY_VOID(open_arguments(calls[i], fmt::format("{}.tool_calls[{}]", path, i), unknown));
  return Done{};
}

// Thoughts that a client sends back are in reasoning_content, or in `reasoning` as vLLM and
// OpenRouter name them.
void rename_thoughts(Json& message) {
  const auto thoughts = message.find("reasoning");
  if (thoughts == message.end() || !thoughts->is_string()) return;
  const auto named = message.find("reasoning_content");
  if (named != message.end() && !named->is_null()) return;
  Json text = std::move(*thoughts);
  message.erase("reasoning");
  message["reasoning_content"] = std::move(text);
}

// Unknown fields stay in the message for the template.
ApiResult<Json> read_message(const Fields& request, const Json& given, const std::string& path) {
  KVICK_TRY(Fields fields, request.inside(given, path));
  KVICK_TRY(std::string role, fields.get_string("role", ""));
  if (role == "developer") role = "system";  // templates do not know OpenAI's new name
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end())
    return bad_field(fields.path("role"), "{} is {}; it must be one of {}", fields.path("role"),
                     in_quotes(role), fmt::join(kRoles, ", "));
  std::string thoughts;
  KVICK_TRY(Json content, read_content(fields, role, thoughts));
  // An assistant may have said nothing, only thought or called tools. Clients send such messages
  // again with every request.
  if (content.is_null() && role != "assistant")
    return bad_field(fields.path("content"), "{} is missing", fields.path("content"));
  Json message = given;
  message["role"] = role;
  // Templates append to the content, which fails for null.
  message["content"] = content.is_null() ? Json("") : std::move(content);
  if (role == "assistant") rename_thoughts(message);
  if (!thoughts.empty()) {
    Json& field = message["reasoning_content"];
    if (field.is_null()) field = std::move(thoughts);
  }
  KVICK_TRY_VOID(open_calls(message, path, fields.unknown()));
  return message;
}

}  // namespace

ApiResult<Json> read_messages(Fields& fields) {
  const Json* given = fields.find("messages");
  if (given == nullptr) return bad_field("messages", "messages is missing");
  if (!given->is_array() || given->empty())
    return bad_field("messages", "messages must be a list of at least one message");
  Json messages = Json::array();
  for (const Json& one : *given) {
    KVICK_TRY(Json message,
              read_message(fields, one, fmt::format("messages[{}]", messages.size())));
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace kvick::server
