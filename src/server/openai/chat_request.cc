#include "server/openai/chat_request.h"

namespace kvick::server {
namespace {

using base::Done;

ApiStatus read_logprobs(Fields& fields, ChatRequest& request) {
  KVICK_TRY(const bool wanted, fields.get_bool("logprobs", false));
  KVICK_TRY(const int64_t top, fields.get_int("top_logprobs", 0, {0, kMostTopTokens}));
  if (!wanted && top > 0) return bad_field("top_logprobs", "top_logprobs needs logprobs: true");
  if (wanted) request.logprobs = static_cast<uint32_t>(top);
  return Done{};
}

// Templates of hybrid models know one of these two names. A request's own variable stays.
void set_thinking(bool wanted, Json& variables) {
  variables.emplace("enable_thinking", wanted);
  variables.emplace("thinking", wanted);
}

// Reads whether the model should think, as DeepSeek's, GLM's and Kimi's APIs and Envoy's gateway
// write it. No template limits thoughts, so a budget has no effect.
ApiStatus read_thinking(Fields& fields, Json& variables) {
  const Json* value = fields.find("thinking");
  if (value == nullptr) return Done{};
  if (value->is_boolean()) {
    set_thinking(value->get<bool>(), variables);
    return Done{};
  }
  KVICK_TRY(Fields thinking, fields.inside(*value, "thinking"));
  KVICK_TRY(const std::string type, thinking.get_string("type", "auto"));
  thinking.ignore({"budget_tokens"});
  KVICK_TRY_VOID(thinking.check_rest());
  if (type == "auto") return Done{};
  const bool wanted = type == "enabled" || type == "adaptive";
  if (!wanted && type != "disabled")
    return bad_field("thinking.type",
                     "thinking.type is {}; it must be enabled, adaptive, disabled or auto",
                     in_quotes(type));
  set_thinking(wanted, variables);
  return Done{};
}

ApiResult<Json> read_variables(Fields& fields, const Tools& tools) {
  Json variables = Json::object();
  if (const Json* more = fields.find("chat_template_kwargs")) {
    if (!more->is_object())
      return bad_field("chat_template_kwargs", "chat_template_kwargs must be a JSON object");
    variables = *more;
  }
  if (const Json* documents = fields.find("documents")) {
    if (!documents->is_array())
      return bad_field("documents", "documents must be a list of objects");
    variables["documents"] = *documents;
  }
  KVICK_TRY_VOID(read_thinking(fields, variables));
  KVICK_TRY(const std::string effort, fields.get_string("reasoning_effort", ""));
  if (!effort.empty()) variables["reasoning_effort"] = effort;
  if (effort == "none") set_thinking(false, variables);  // templates of hybrid models ignore it
  // Null if there are none, as Hugging Face passes it: some templates test `tools is none`.
  variables["tools"] = tools.list;
  return variables;
}

// Reads where thoughts go, by llama-server's name, SGLang's and vLLM's.
ApiResult<Thoughts> read_thoughts(Fields& fields) {
  KVICK_TRY(const std::string format, fields.get_string("reasoning_format", "auto"));
  if (format != "auto" && format != "deepseek" && format != "none")
    return bad_field("reasoning_format",
                     "reasoning_format is {}; \"auto\", \"deepseek\" and \"none\" are known",
                     in_quotes(format));
  KVICK_TRY(const bool apart, fields.get_bool("separate_reasoning", format != "none"));
  KVICK_TRY(const bool kept, fields.get_bool("include_reasoning", true));
  if (!kept) return Thoughts::kDropped;
  return apart ? Thoughts::kApart : Thoughts::kInContent;
}

}  // namespace

ApiResult<engine::ChatEnd> read_chat_end(Fields& fields) {
  KVICK_TRY(const bool continues, fields.get_bool("continue_final_message", false));
  KVICK_TRY(const bool new_turn, fields.get_bool("add_generation_prompt", !continues));
  if (continues && new_turn)
    return bad_field("continue_final_message",
                     "continue_final_message and add_generation_prompt exclude each other");
  if (continues) return engine::ChatEnd::kLastMessage;
  return new_turn ? engine::ChatEnd::kNewTurn : engine::ChatEnd::kTurn;
}

ApiResult<ChatRequest> parse_chat(const Json& body, UnknownFields& unknown) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  ChatRequest request;
  KVICK_TRY_VOID(read_generation(fields, 0, request));
  KVICK_TRY_VOID(read_logprobs(fields, request));
  KVICK_TRY_VOID(read_prompt_fields(fields, request));
  KVICK_TRY(request.messages, read_messages(fields));
  KVICK_TRY(request.end, read_chat_end(fields));
  KVICK_TRY(request.thoughts, read_thoughts(fields));
  KVICK_TRY(request.tools, read_tools(fields));
  KVICK_TRY(request.variables, read_variables(fields, request.tools));
  fields.ignore_value("add_special_tokens", false);  // the template writes them
  KVICK_TRY_VOID(fields.check_rest());
  const Json calls = request.tools.response_format();
  if (!calls.is_null() && !request.response_format.is_null())
    return bad_field(request.format_field,
                     "{} and a tool_choice that requires a call exclude each other",
                     request.format_field);
  if (!calls.is_null()) {
    request.response_format = calls;
    request.format_field = "tools";
  }
  return request;
}

}  // namespace kvick::server
