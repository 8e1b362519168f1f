#include "server/openai/completion_request.h"

namespace kvick::server {
namespace {

using base::Done;

constexpr uint32_t kDefaultTokens = 16;  // OpenAI's default for completions

// Reads OpenAI's suffix; an empty one counts as none.
ApiStatus read_suffix(Fields& fields, CompletionRequest& request) {
  KVICK_TRY(std::string suffix, fields.get_string("suffix", ""));
  if (suffix.empty()) return Done{};
  for (const Prompt& prompt : request.prompts)
    if (!std::holds_alternative<std::string>(prompt))
      return bad_field("suffix", "suffix needs a prompt that is text, not tokens");
  if (request.echo)
    return bad_field("echo",
                     "echo and suffix exclude each other: the answer stands between two "
                     "texts");
  if (request.max_prompt_tokens)
    return bad_field("truncate_prompt_tokens",
                     "truncate_prompt_tokens and suffix exclude each other: the answer stands "
                     "between two texts");
  request.suffix = std::move(suffix);
  return Done{};
}

}  // namespace

ApiResult<CompletionRequest> parse_completion(const Json& body, UnknownFields& unknown) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  CompletionRequest request;
  KVICK_TRY_VOID(read_generation(fields, kDefaultTokens, request));
  KVICK_TRY(request.prompts, read_prompts(fields, "prompt", kMostPrompts, "prompts"));
  KVICK_TRY(request.echo, fields.get_bool("echo", false));
  KVICK_TRY_VOID(read_prompt_fields(fields, request));
  KVICK_TRY_VOID(read_suffix(fields, request));
  if (fields.find("logprobs") != nullptr) {
    KVICK_TRY(const int64_t logprobs, fields.get_int("logprobs", 0, {0, kMostTopTokens}));
    request.logprobs = static_cast<uint32_t>(logprobs);
  }
  fields.ignore_value("add_special_tokens", true);
  KVICK_TRY_VOID(fields.check_rest());
  return request;
}

}  // namespace kvick::server
