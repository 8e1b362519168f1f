#include "server/openai/fill_in.h"

namespace kvick::server {

ApiResult<std::vector<engine::Token>> fill_in_tokens(const CompletionRequest& request,
                                                     const Prompt& prompt,
                                                     const engine::Engine& engine) {
  const text::Tokenizer& tokenizer = engine.tokenizer();
  if (!text::can_fill_in(tokenizer.vocabulary()))
    return bad_field(request.suffix_field,
                     "this model has no tokens for filling in the middle of a text (FIM), so it "
                     "cannot take {}; a coder's model such as Qwen2.5-Coder can",
                     request.suffix_field);
  return text::fill_in_prompt(
      tokenizer,
      {.before = std::get<std::string>(prompt), .after = *request.suffix, .files = request.files});
}

}  // namespace kvick::server
