#include "server/ollama/ollama_request.h"

#include "server/ollama/messages.h"
#include "server/ollama/model_json.h"
#include "server/ollama/ollama_format.h"
#include "server/ollama/options.h"

namespace kvick::server {
namespace {

using base::Done;

// Reads kvick's own fields, which may have come as headers. Other options get their defaults.
ApiStatus read_own_fields(Fields& fields, GenerationRequest& request) {
  Json own = Json::object();
  for (const char* name : {"kv", "spec", "cache_salt", "priority"})
    if (const Json* value = fields.find(name)) own[name] = *value;
  KVICK_TRY(Fields inner, fields.inside(own, ""));
  return read_generation(inner, 0, request);
}

ApiStatus read_format(Fields& fields, GenerationRequest& request) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") return Done{};
  request.format_field = "format";
  if (*format == "json") {
    request.response_format = {{"type", "json_object"}};
    return Done{};
  }
  if (!format->is_object()) return bad_field("format", "format must be \"json\" or a JSON schema");
  request.response_format = {{"type", "json_schema"}, {"json_schema", {{"schema", *format}}}};
  return Done{};
}

ApiStatus read_think(Fields& fields, OllamaRequest& request) {
  const Json* think = fields.find("think");
  if (think == nullptr) return Done{};
  if (think->is_boolean()) {
    request.thinks = think->get<bool>();
  } else if (*think == "low" || *think == "medium" || *think == "high" || *think == "max") {
    request.thinks = true;
    request.chat.variables["reasoning_effort"] = *think;
  } else {
    return bad_field("think",
                     "think must be true, false, \"low\", \"medium\", \"high\" or \"max\"");
  }
  request.chat.thoughts = *request.thinks ? Thoughts::kApart : Thoughts::kDropped;
  // Templates of hybrid models know one of these two names.
  request.chat.variables["enable_thinking"] = *request.thinks;
  request.chat.variables["thinking"] = *request.thinks;
  return Done{};
}

ApiStatus read_logprobs(Fields& fields, ChatRequest& chat) {
  KVICK_TRY(const bool wanted, fields.get_bool("logprobs", false));
  KVICK_TRY(const int64_t top, fields.get_int("top_logprobs", 0, {0, kMostTopTokens}));
  if (!wanted && top > 0) return bad_field("top_logprobs", "top_logprobs needs logprobs: true");
  if (wanted) chat.logprobs = static_cast<uint32_t>(top);
  return Done{};
}

// Reads keep_alive, which does not change how long the model stays loaded. It only chooses the
// answer to a request without a question.
void read_keep_alive(Fields& fields, OllamaRequest& request) {
  const Json* keep = fields.find("keep_alive");
  if (keep == nullptr) return;
  for (const Json& zero : {Json(0), Json("0"), Json("0s"), Json("0m"), Json("0h")})
    request.unloads |= *keep == zero;
}

ApiStatus read_common(Fields& fields, uint32_t context, OllamaRequest& request) {
  ChatRequest& chat = request.chat;
  chat.variables = Json::object();
  KVICK_TRY_VOID(read_own_fields(fields, chat));
  KVICK_TRY(chat.model, fields.get_string("model", ""));
  KVICK_TRY(chat.stream, fields.get_bool("stream", true));
  KVICK_TRY_VOID(read_ollama_options(fields, context, chat));
  KVICK_TRY_VOID(read_format(fields, chat));
  KVICK_TRY_VOID(read_think(fields, request));
  KVICK_TRY_VOID(read_logprobs(fields, chat));
  read_keep_alive(fields, request);
  return Done{};
}

// Refuses a field that would change the answer and is not supported, unless it is empty.
ApiStatus refuse(Fields& fields, const char* name, std::string_view why) {
  const Json* value = fields.find(name);
  if (value == nullptr || *value == "" || value->empty()) return Done{};
  return bad_field(name, "{} is not supported: {}", name, why);
}

ApiStatus refuse_unsupported(Fields& fields) {
  KVICK_TRY_VOID(refuse(fields, "images", "this server takes only text; leave images out"));
  KVICK_TRY_VOID(refuse(fields, "template",
                        "the model's own chat template is used; leave template out, or send the "
                        "whole text with raw: true"));
  return refuse(fields, "context", "send the conversation so far to /api/chat instead");
}

// Reads only the list of tools: OpenAI's tool_choice and other fields do not exist here.
ApiResult<Tools> read_offered(Fields& fields) {
  Json offered = Json::object();
  if (const Json* list = fields.find("tools")) offered["tools"] = *list;
  KVICK_TRY(Fields inner, fields.inside(offered, ""));
  return read_tools(inner);
}

Json messages_of(const std::string& system, const std::string& prompt) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return messages;
}

ApiResult<Plan> plan_text(const OllamaRequest& request, const PlanContext& context) {
  if (request.chat.messages.size() > 1)
    return bad_field("system",
                     "the model has no chat template and so no system message; put it into the "
                     "prompt");
  CompletionRequest completion;
  static_cast<GenerationRequest&>(completion) = request.chat;
  completion.prompts.emplace_back(request.prompt);
  if (!request.suffix.empty()) completion.suffix = request.suffix;
  return plan_completion(completion, context);
}

}  // namespace

ApiResult<OllamaRequest> parse_ollama_chat(const Json& body, uint32_t context,
                                           UnknownFields& unknown) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  OllamaRequest request;
  KVICK_TRY_VOID(read_common(fields, context, request));
  KVICK_TRY(request.chat.tools, read_offered(fields));
  request.chat.variables["tools"] = request.chat.tools.list;
  const Json* messages = fields.find("messages");
  request.asks = messages != nullptr && !(messages->is_array() && messages->empty());
  KVICK_TRY_VOID(fields.check_rest());
  if (request.asks) {
    KVICK_TRY(request.chat.messages, read_ollama_messages(*messages, fields));
  }
  return request;
}

ApiResult<OllamaRequest> parse_ollama_generate(const Json& body, uint32_t context,
                                               UnknownFields& unknown) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  OllamaRequest request;
  request.generates = true;
  KVICK_TRY_VOID(read_common(fields, context, request));
  KVICK_TRY_VOID(refuse_unsupported(fields));
  KVICK_TRY(request.prompt, fields.get_string("prompt", ""));
  KVICK_TRY(const std::string system, fields.get_string("system", ""));
  KVICK_TRY(request.raw, fields.get_bool("raw", false));
  KVICK_TRY(request.suffix, fields.get_string("suffix", ""));
  KVICK_TRY_VOID(fields.check_rest());
  if (request.raw && !system.empty())
    return bad_field("system",
                     "a raw prompt goes to the model as it is, without a system message; put "
                     "system into the prompt or leave raw out");
  if (!request.suffix.empty() && !system.empty())
    return bad_field("system",
                     "a request with suffix takes no system message; leave one of the two out");
  request.chat.variables["tools"] = nullptr;
  request.chat.messages = messages_of(system, request.prompt);
  request.asks = !request.prompt.empty() || !request.suffix.empty();
  return request;
}

ApiResult<Plan> plan_ollama(OllamaRequest request, const PlanContext& context,
                            const OllamaServed& served) {
  const std::string model =
      request.chat.model.empty() ? tagged_name(served.model) : request.chat.model;
  const OllamaForm form = {.model = model, .chat = !request.generates};
  if (!request.asks) {
    Plan plan;
    plan.answer = ollama_idle_answer(form, served.created, request.unloads, request.chat.stream);
    return plan;
  }
  if (request.thinks.value_or(false) && !knows_thoughts(context.engine))
    return bad_field(
        "think",
        "{} does not support thinking: its chat template has no form for it; leave think out",
        in_quotes(model));
  const bool plain = request.generates && (request.raw || !request.suffix.empty() ||
                                           !context.engine.has_chat_template());
  KVICK_TRY(Plan plan, plain ? plan_text(request, context) : plan_chat(request.chat, context));
  plan.format = ollama_format(form, context.engine.tokenizer());
  return plan;
}

}  // namespace kvick::server
