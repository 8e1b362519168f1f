#pragma once
// Reports how likely tokens are by the model, for requests with logprobs.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/contract/kv.h"

namespace kvick::engine {

using Token = kv::Token;

struct TokenChance {
  Token token = 0;
  // Natural logarithm of its probability by the model, before sampling; NaN for the first token of
  // a prompt.
  float logprob = 0;
  bool operator==(const TokenChance&) const = default;
};
struct TokenReport {
  TokenChance chosen;
  std::vector<TokenChance> top;  // the likeliest, best first
};

// Returns the likeliest tokens under softmax(logits), best first, ties to the lower token; all if
// there are fewer. O(vocab log count).
std::vector<TokenChance> likeliest(std::span<const float> logits, size_t count);
// log(sum(exp(logits))): a token's logprob is its logit less this.
double log_mass(std::span<const float> logits);
// Returns the report of a token that follows these logits, with the `top` likeliest tokens.
TokenReport report_of(std::span<const float> logits, Token token, uint32_t top);

}  // namespace kvick::engine
