#pragma once
// How likely a model holds a token: what requests for logprobs are answered with.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv.h"

namespace kvick::engine {

using Token = kv::Token;

struct TokenChance {
  Token token = 0;
  float logprob = 0;  // natural logarithm, of the model's own distribution
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

}  // namespace kvick::engine
