#include "server/anthropic/messages_request.h"

#include <array>

#include "server/anthropic/blocks.h"
#include "server/anthropic/client_tools.h"
#include "server/anthropic/conversation.h"

namespace kvick::server {
namespace {

using base::Done;

// Fields with the same meaning in a chat of OpenAI's API, Anthropic's own first.
constexpr std::array kSame = {"model",      "stream",     "max_tokens",   "temperature",
                              "top_p",      "top_k",      "kv",           "spec",
                              "cache_salt", "priority",   "seed",         "min_p",
                              "ignore_eos", "stop_loops", "cache_prompt", "logit_bias"};

ApiStatus read_same(Fields& fields, ChatRequest& request) {
  Json same = Json::object();
  for (const char* name : kSame)
    if (const Json* value = fields.find(name)) same[name] = *value;
  KVICK_TRY(Fields chosen, fields.inside(same, ""));
  return read_generation(chosen, 0, request);
}

ApiStatus check_max_tokens(Fields& fields) {
  if (fields.find("max_tokens") == nullptr)
    return bad_field("max_tokens", "max_tokens is missing: say how long the answer may be");
  // read_generation() reads the value, but accepts others too.
  const auto most = fields.get_int("max_tokens", 0, {1, UINT32_MAX});
  if (!most.ok()) return most.error();
  return Done{};
}

ApiStatus read_stops(Fields& fields, ChatRequest& request) {
  const Json* stops = fields.find("stop_sequences");
  if (stops == nullptr) return Done{};
  if (!stops->is_array() || stops->size() > kMostStops)
    return bad_field("stop_sequences", "stop_sequences must be a list of at most {} strings",
                     kMostStops);
  for (const Json& text : *stops) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      return bad_field("stop_sequences", "stop_sequences must be strings, none of them empty");
    if (text.get_ref<const std::string&>().size() > kMostStopBytes)
      return bad_field("stop_sequences", "one of stop_sequences is longer than {} bytes",
                       kMostStopBytes);
    request.stop.push_back(text.get<std::string>());
  }
  return Done{};
}

// If the request does not set it, the template decides.
ApiStatus read_thinking(Fields& fields, ChatRequest& request) {
  const Json* value = fields.find("thinking");
  if (value == nullptr) return Done{};
  KVICK_TRY(Fields thinking, fields.inside(*value, "thinking"));
  KVICK_TRY(const std::string type, required_string(thinking, "type"));
  const bool wanted = type == "enabled" || type == "adaptive" || type == "between_tools";
  if (!wanted && type != "disabled")
    return bad_field("thinking.type",
                     "thinking.type is {}; it must be enabled, adaptive or disabled",
                     in_quotes(type));
  const auto budget = thinking.get_int("budget_tokens", 1, {1, UINT32_MAX});
  if (!budget.ok()) return budget.error();  // otherwise ignored: no template limits thoughts
  KVICK_TRY(const std::string display, thinking.get_string("display", ""));
  if (display == "omitted") request.thoughts = Thoughts::kDropped;
  // Granite's and DeepSeek's templates use the name `thinking`.
  request.variables["enable_thinking"] = wanted;
  request.variables["thinking"] = wanted;
  return thinking.check_rest();
}

ApiStatus read_form(const Fields& fields, const Json* value, const std::string& path,
                    ChatRequest& request) {
  if (value == nullptr) return Done{};
  KVICK_TRY(Fields format, fields.inside(*value, path));
  KVICK_TRY(const std::string type, required_string(format, "type"));
  if (type != "json_schema")
    return bad_field(format.path("type"), "{} must be \"json_schema\"", format.path("type"));
  const Json* schema = format.find("schema");
  if (schema == nullptr || !schema->is_object())
    return bad_field(format.path("schema"), "{} must be a JSON schema", format.path("schema"));
  request.response_format = {{"type", "json_schema"}, {"json_schema", {{"schema", *schema}}}};
  request.format_field = path;
  return format.check_rest();
}

ApiStatus read_output(Fields& fields, ChatRequest& request) {
  // The earlier name of output_config.format.
  KVICK_TRY_VOID(read_form(fields, fields.find("output_format"), "output_format", request));
  const Json* value = fields.find("output_config");
  if (value == nullptr) return Done{};
  KVICK_TRY(Fields output, fields.inside(*value, "output_config"));
  KVICK_TRY_VOID(read_form(fields, output.find("format"), "output_config.format", request));
  KVICK_TRY(const std::string effort, output.get_string("effort", ""));
  if (!effort.empty()) request.variables["reasoning_effort"] = effort;
  return output.check_rest();
}

ApiStatus offer(ChatRequest& request) {
  request.variables["tools"] = request.tools.list;
  Json calls = request.tools.response_format();
  if (calls.is_null()) return Done{};
  if (!request.response_format.is_null())
    return bad_field(request.format_field,
                     "{} and a tool_choice that requires a call exclude each other",
                     request.format_field);
  request.response_format = std::move(calls);
  request.format_field = "tools";
  return Done{};
}

ApiResult<ChatRequest> parse(Fields& fields) {
  ChatRequest request;
  request.variables = Json::object();
  KVICK_TRY_VOID(read_same(fields, request));
  KVICK_TRY_VOID(read_stops(fields, request));
  KVICK_TRY(request.tools, read_client_tools(fields));
  KVICK_TRY(Conversation conversation, read_conversation(fields, request.tools));
  request.messages = std::move(conversation.messages);
  request.end = conversation.end;
  KVICK_TRY_VOID(read_thinking(fields, request));
  KVICK_TRY_VOID(read_output(fields, request));
  KVICK_TRY_VOID(offer(request));
  // Fields for identification and billing. cache_control is not needed: rows are always cached and
  // shared.
  fields.ignore({"metadata", "service_tier", "cache_control", "inference_geo", "user_profile_id",
                 "workspace_id"});
  fields.ignore_value("speed", "standard");
  // Claude Code sends this with every request; it asks to drop no thoughts.
  static const Json kKeepAll = {
      {"edits", Json::array({{{"type", "clear_thinking_20251015"}, {"keep", "all"}}})}};
  fields.ignore_value("context_management", kKeepAll);
  KVICK_TRY_VOID(fields.check_rest());
  return request;
}

}  // namespace

ApiResult<ChatRequest> parse_messages_request(const Json& body, UnknownFields& unknown) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  KVICK_TRY_VOID(check_max_tokens(fields));
  return parse(fields);
}

ApiResult<ChatRequest> parse_count_request(const Json& body, UnknownFields& unknown) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  return parse(fields);
}

}  // namespace kvick::server
