#include "server/responses/responses_request.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "server/responses/input_items.h"
#include "server/responses/responses_format.h"
#include "server/responses/responses_tools.h"

namespace kvick::server {
namespace {

using base::Done;

// Fields that this API reads itself; all others are read as a chat's.
constexpr std::array kOwn = {
    "input",
    "instructions",
    "previous_response_id",
    "max_output_tokens",
    "text",
    "reasoning",
    "tools",
    "tool_choice",
    "truncation",
    "background",
    "include",
    "max_tool_calls",
    "conversation",
    "prompt",
    "store",
    "metadata",
    "user",
    "service_tier",
    "safety_identifier",
    "top_logprobs",
    // Fields of chats that have another name here, or no place in the answer.
    "messages",
    "response_format",
    "reasoning_effort",
    "logprobs",
    "n",
    "best_of",
    "return_token_ids",
    "prompt_logprobs",
    "truncate_prompt_tokens",
    "max_tokens",
    "max_completion_tokens",
    "n_predict",
    "client_metadata",
};
constexpr std::array kNotHere = {
    "messages",  "response_format", "reasoning_effort",      "logprobs",   "top_logprobs",
    "n",         "best_of",         "return_token_ids",      "max_tokens", "max_completion_tokens",
    "n_predict", "prompt_logprobs", "truncate_prompt_tokens"};

// Returns whether a chat's field has a value that requests nothing.
bool asks_nothing(std::string_view name, const Json& value) {
  if (value == false || value == 0) return true;
  return (name == "n" || name == "best_of") && value == 1;
}

// Refuses, or reports as unknown, fields of chats that do not exist here: a client that sends them
// expects an effect.
ApiStatus check_not_here(Fields& fields, UnknownFields& unknown) {
  for (const char* const name : kNotHere) {
    const Json* value = fields.find(name);
    if (value == nullptr || asks_nothing(name, *value)) continue;
    if (unknown.refused())
      return bad_field(
          name, "\"{}\" is no field that this server knows in a response; leave it out", name);
    unknown.add(name);
  }
  return Done{};
}

ApiStatus check_unsupported(Fields& fields) {
  KVICK_TRY(const bool background, fields.get_bool("background", false));
  if (background)
    return bad_field("background",
                     "background responses are not made here; leave background out, or stream");
  if (fields.find("conversation") != nullptr)
    return bad_field(
        "conversation",
        "conversations are not kept here; use previous_response_id, or send the items");
  if (fields.find("prompt") != nullptr)
    return bad_field("prompt", "prompts are not kept here; send instructions and input");
  return Done{};
}

ApiStatus read_truncation(Fields& fields) {
  KVICK_TRY(const std::string truncation, fields.get_string("truncation", "disabled"));
  if (truncation == "auto" || truncation == "disabled") return Done{};
  return bad_field("truncation", "truncation is {}; it must be \"auto\" or \"disabled\"",
                   in_quotes(truncation));
}

// Reads include. Encrypted thoughts are for servers that store none; here the answer has the
// thoughts themselves.
ApiStatus read_include(Fields& fields, UnknownFields& unknown) {
  const Json* list = fields.find("include");
  if (list == nullptr) return Done{};
  if (!list->is_array()) return bad_field("include", "include must be a list of strings");
  for (const Json& one : *list) {
    if (!one.is_string()) return bad_field("include", "include must be a list of strings");
    if (one == "reasoning.encrypted_content") continue;
    if (unknown.refused())
      return bad_field("include", "include has {}, which this server does not have; leave it out",
                       in_quotes(one.get_ref<const std::string&>()));
    unknown.add("include." + one.get<std::string>());
  }
  return Done{};
}

// ---- fields of chats ----

ApiStatus read_most_tokens(Fields& fields, Json& chat) {
  if (fields.find("max_output_tokens") == nullptr) return Done{};
  KVICK_TRY(const int64_t most, fields.get_int("max_output_tokens", 1, {1, UINT32_MAX}));
  chat["max_completion_tokens"] = most;
  return Done{};
}

ApiStatus read_effort(Fields& fields, Json& chat) {
  const Json* value = fields.find("reasoning");
  if (value == nullptr) return Done{};
  KVICK_TRY(Fields reasoning, fields.inside(*value, "reasoning"));
  KVICK_TRY(const std::string effort, reasoning.get_string("effort", ""));
  if (!effort.empty()) chat["reasoning_effort"] = effort;
  reasoning.ignore({"summary", "generate_summary"});  // answers have the whole thoughts
  return reasoning.check_rest();
}

ApiStatus read_form(Fields& format, const Json& value, Json& chat) {
  KVICK_TRY(const std::string type, format.get_string("type", "text"));
  if (type == "text") return format.check_rest();
  if (type == "json_object") {
    chat["response_format"] = {{"type", type}};
    return format.check_rest();
  }
  if (type != "json_schema")
    return bad_field("text.format.type",
                     "text.format.type is {}; it must be \"text\", \"json_object\" or "
                     "\"json_schema\"",
                     in_quotes(type));
  const Json* schema = format.find("schema");
  if (schema == nullptr) return bad_field("text.format.schema", "text.format.schema is missing");
  Json named = {{"schema", *schema}};
  if (value.contains("name")) named["name"] = value["name"];
  chat["response_format"] = {{"type", type}, {"json_schema", std::move(named)}};
  format.ignore({"name", "description", "strict"});
  return format.check_rest();
}

ApiStatus read_text(Fields& fields, Json& chat) {
  const Json* value = fields.find("text");
  if (value == nullptr) return Done{};
  KVICK_TRY(Fields text, fields.inside(*value, "text"));
  if (const Json* form = text.find("format")) {
    KVICK_TRY(Fields format, text.inside(*form, "text.format"));
    KVICK_TRY_VOID(read_form(format, *form, chat));
  }
  text.ignore({"verbosity"});  // no template uses it
  return text.check_rest();
}

// Copies the fields that are read as a chat's. Does not look each up by name, which would take
// minutes for 100,000 fields.
void copy_rest(const Json& body, Json& chat) {
  auto& to = chat.get_ref<Json::object_t&>();
  for (const auto& [name, value] : body.get_ref<const Json::object_t&>())
    if (std::find(kOwn.begin(), kOwn.end(), name) == kOwn.end())
      to.push_back(Json::object_t::value_type(name, value));
}

// Replaces names of chat fields in an error by this API's names.
ApiError renamed(ApiError error) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames = {
      {{"response_format", "text.format"},
       {"messages", "input"},
       {"max_completion_tokens", "max_output_tokens"},
       {"reasoning_effort", "reasoning.effort"}}};
  for (const auto& [chat, here] : kNames) {
    if (!error.param.starts_with(chat)) continue;
    error.param.replace(0, chat.size(), here);
    for (size_t at = error.message.find(chat); at != std::string::npos;
         at = error.message.find(chat, at + here.size()))
      error.message.replace(at, chat.size(), here);
    return error;
  }
  return error;
}

// ---- the conversation ----

Json parsed(const std::string& text) {
  auto json = parse_json(text);
  KVICK_CHECK(json.ok(), "a stored response cannot be read: {}", json.error().message);
  return *std::move(json);
}

// The items that a request refers to. Each response is read once and each item returned once, so
// that a small request cannot expand beyond the store's size.
class StoredItems {
 public:
  static constexpr size_t kMostResponses = 16;  // limit per request

  explicit StoredItems(const OwnedResponses& responses) : responses_(responses) {}

  // Returns an item. Its id has the number of its response: "msg_0123456789abcdef_2".
  Json take(const std::string& id) {
    const size_t begin = id.find('_');
    if (responses_.store == nullptr || begin == std::string::npos) return nullptr;
    const size_t end = std::min(id.find('_', begin + 1), id.size());
    read(response_id(std::string_view(id).substr(begin + 1, end - begin - 1)));
    const auto found = items_.find(id);
    if (found == items_.end()) return nullptr;
    return std::exchange(found->second, nullptr);
  }

 private:
  void read(const std::string& response) {
    if (seen_.size() == kMostResponses || !seen_.insert(response).second) return;
    const auto stored = responses_.store->find(response, responses_.owner);
    if (stored == nullptr) return;
    Json answer = parsed(stored->response), input = parsed(stored->input);
    for (Json* const list : {&input, &answer["output"]})
      for (Json& item : *list) {
        std::string id = item["id"].get<std::string>();
        items_.emplace(std::move(id), std::move(item));
      }
  }

  const OwnedResponses& responses_;
  std::set<std::string> seen_;
  std::map<std::string, Json> items_;
};

// Treats calls that were cut off as calls without arguments, as when the client sends them itself.
ApiStatus mend_calls(Json& output, const std::string& id, UnknownFields& unknown) {
  for (size_t i = 0; i < output.size(); ++i) {
    if (output[i]["type"] != "function_call") continue;
    Json& arguments = output[i]["arguments"];
    const auto given = parse_json(arguments.get_ref<const std::string&>());
    if (given.ok() && given->is_object()) continue;
    if (unknown.refused())
      return bad_field("previous_response_id",
                       "response {} ended within a call of a tool; ask again with a larger "
                       "max_output_tokens instead of going on from it",
                       in_quotes(id));
    unknown.add(fmt::format("previous_response_id.output[{}].arguments", i));
    arguments = "{}";
  }
  return Done{};
}

ApiResult<Json> previous_items(const std::string& id, const OwnedResponses& responses,
                               UnknownFields& unknown) {
  constexpr const char* kField = "previous_response_id";
  if (responses.store == nullptr)
    return bad_field(kField,
                     "this server keeps no responses (--response-store-mb 0); send the whole "
                     "conversation as input");
  const auto stored = responses.store->find(id, responses.owner);
  if (stored == nullptr) {
    ApiError error = bad_field(kField,
                               "there is no response {}: it was not stored, was deleted, or was "
                               "dropped for newer ones; send the whole conversation as input",
                               in_quotes(id));
    error.code = "previous_response_not_found";
    return error;
  }
  Json items = parsed(stored->input);
  Json response = parsed(stored->response);
  Json& output = response["output"];
  KVICK_TRY_VOID(mend_calls(output, id, unknown));
  items.insert(items.end(), output.begin(), output.end());
  return items;
}

ApiResult<Json> read_conversation(Fields& fields, const OwnedResponses& responses) {
  KVICK_TRY(const std::string previous, fields.get_string("previous_response_id", ""));
  StoredItems stored(responses);
  KVICK_TRY(Json input, read_input(fields, [&](const std::string& id) { return stored.take(id); }));
  if (previous.empty()) return input;
  KVICK_TRY(Json items, previous_items(previous, responses, fields.unknown()));
  items.insert(items.end(), input.begin(), input.end());
  return items;
}

// ---- the answer's fields ----

Json given_or(const Json& body, const char* name, Json otherwise) {
  const auto found = body.find(name);
  return found == body.end() || found->is_null() ? std::move(otherwise) : *found;
}

Json echo_of(const Json& body, bool store) {
  Json echo = {{"background", false}};
  for (const char* const name :
       {"instructions", "max_output_tokens", "max_tool_calls", "previous_response_id",
        "prompt_cache_key", "safety_identifier", "user"})
    echo[name] = given_or(body, name, nullptr);
  echo["metadata"] = given_or(body, "metadata", Json::object());
  echo["parallel_tool_calls"] = given_or(body, "parallel_tool_calls", true);
  echo["reasoning"] = given_or(body, "reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  echo["service_tier"] = "default";
  echo["store"] = store;
  echo["temperature"] = given_or(body, "temperature", 1.0);
  Json text = given_or(body, "text", Json::object());
  if (!text.contains("format") || text["format"].is_null()) text["format"] = {{"type", "text"}};
  echo["text"] = std::move(text);
  echo["tool_choice"] = given_or(body, "tool_choice", "auto");
  echo["tools"] = given_or(body, "tools", Json::array());
  echo["top_logprobs"] = 0;
  echo["top_p"] = given_or(body, "top_p", 1.0);
  // "auto" is answered as "disabled": a conversation that is too long is refused, not truncated.
  echo["truncation"] = "disabled";
  return echo;
}

// Reads all fields except the conversation into a chat's body.
ApiResult<Json> read_settings(Fields& fields, UnknownFields& unknown) {
  Json chat = Json::object();
  KVICK_TRY_VOID(check_not_here(fields, unknown));
  KVICK_TRY_VOID(check_unsupported(fields));
  KVICK_TRY_VOID(read_truncation(fields));
  KVICK_TRY_VOID(read_include(fields, unknown));
  KVICK_TRY_VOID(read_most_tokens(fields, chat));
  KVICK_TRY_VOID(read_effort(fields, chat));
  KVICK_TRY_VOID(read_text(fields, chat));
  const Json* metadata = fields.find("metadata");
  if (metadata != nullptr && !metadata->is_object())
    return bad_field("metadata", "metadata must be a JSON object");
  return chat;
}

void allow(const std::vector<std::string>& names, ChatRequest& chat) {
  if (names.empty()) return;
  chat.tools.names = names;
  const Json calls = chat.tools.response_format();
  if (!calls.is_null()) chat.response_format = calls;
}

}  // namespace

ApiResult<ResponsesRequest> parse_responses(const Json& body, const OwnedResponses& responses,
                                            UnknownFields& unknown) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  KVICK_TRY(Json chat, read_settings(fields, unknown));
  KVICK_TRY(const std::string instructions, fields.get_string("instructions", ""));
  KVICK_TRY(ResponsesTools tools, read_responses_tools(fields, unknown));
  KVICK_TRY(const bool store, fields.get_bool("store", true));
  ResponsesRequest request;
  request.store = store && responses.store != nullptr;
  KVICK_TRY(request.items, read_conversation(fields, responses));
  chat["messages"] = chat_messages(instructions, request.items);
  if (chat["messages"].empty())
    return bad_field("input",
                     "input has no message that the model could answer; send a user's message");
  if (!tools.list.empty()) chat["tools"] = tools.list;
  if (!tools.choice.is_null()) chat["tool_choice"] = tools.choice;
  copy_rest(body, chat);
  auto read = parse_chat(chat, unknown);
  if (!read.ok()) return renamed(read.error());
  request.chat = *std::move(read);
  if (chat.contains("response_format")) request.chat.format_field = "text.format";
  allow(tools.allowed, request.chat);
  request.namespaces = std::move(tools.namespaces);
  request.echo = echo_of(body, request.store);
  return request;
}

ApiResult<Plan> plan_responses(ResponsesRequest request, OwnedResponses responses,
                               const PlanContext& context) {
  auto plan = plan_chat(request.chat, context);
  if (!plan.ok()) return renamed(plan.error());
  if (!request.store) responses.store = nullptr;
  plan->format = responses_format({.echo = std::move(request.echo),
                                   .items = std::move(request.items),
                                   .namespaces = std::move(request.namespaces),
                                   .responses = std::move(responses),
                                   .tokenizer = &context.engine.tokenizer()});
  return plan;
}

}  // namespace kvick::server
