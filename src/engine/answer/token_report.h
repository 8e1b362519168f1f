#pragma once
// How likely a model holds a token: what requests for logprobs are answered with.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/contract/kv.h"

namespace kvick::engine {

using Token = kv::Token;

struct TokenChance {
  Token token = 0;
  // Natural logarithm, of the model's own distribution; NaN for a token that nothing stands before.
  float logprob = 0;
  bool operator==(const TokenChance&) const = default;
};
struct TokenReport {
  TokenChance chosen;
  std::vector<TokenChance> top;  // the likeliest, best first
};

// The likeliest tokens under softmax(logits), best first and of equals the lowest; all if there are
// fewer. O(vocab log count).
std::vector<TokenChance> likeliest(std::span<const float> logits, size_t count);
// log(sum(exp(logits))): a token's logprob is its logit less this.
double log_mass(std::span<const float> logits);
// The report of a token that follows these logits, with the `top` likeliest tokens.
TokenReport report_of(std::span<const float> logits, Token token, uint32_t top);

}  // namespace kvick::engine
