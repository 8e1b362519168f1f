#include "server/openai/completion_request.h"

#include "server/request/token_list.h"

namespace kvick::server {
namespace {

using base::Done;

constexpr uint32_t kDefaultTokens = 16;  // OpenAI's, for completions

ApiError wrong_prompt() {
  return bad_field("prompt",
                   "prompt must be a string, a list of strings, a list of token ids, or a list of "
                   "such lists");
}

ApiResult<Prompt> read_prompt(const Json& value) {
  if (value.is_string()) return Prompt(value.get<std::string>());
  if (!value.is_array()) return wrong_prompt();
  KVICK_TRY(std::vector<engine::Token> tokens, read_tokens(value, "prompt"));
  return Prompt(std::move(tokens));
}

ApiStatus read_prompts(Fields& fields, CompletionRequest& request) {
  const Json* value = fields.find("prompt");
  if (value == nullptr) return bad_field("prompt", "prompt is missing");
  const bool several = value->is_array() && !value->empty() && !value->front().is_number();
  if (several && value->size() > kMostPrompts)
    return bad_field("prompt", "prompt has {} prompts; at most {} are taken", value->size(),
                     kMostPrompts);
  const Json list = several ? *value : Json::array({*value});
  for (const Json& one : list) {
    KVICK_TRY(Prompt prompt, read_prompt(one));
    request.prompts.push_back(std::move(prompt));
  }
  return Done{};
}

}  // namespace

ApiResult<CompletionRequest> parse_completion(const Json& body, UnknownFields& unknown) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  CompletionRequest request;
  KVICK_TRY_VOID(read_generation(fields, kDefaultTokens, request));
  KVICK_TRY_VOID(read_prompts(fields, request));
  KVICK_TRY(request.echo, fields.get_bool("echo", false));
  if (fields.find("logprobs") != nullptr) {
    KVICK_TRY(const int64_t logprobs, fields.get_int("logprobs", 0, {0, kMostTopTokens}));
    request.logprobs = static_cast<uint32_t>(logprobs);
  }
  fields.ignore_value("add_special_tokens", true);
  KVICK_TRY_VOID(fields.check_rest());
  return request;
}

}  // namespace kvick::server
