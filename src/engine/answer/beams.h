#pragma once
// Beam search: of all continuations of some answers, those with the highest probability.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/answer/token_report.h"

namespace kvick::engine {

// An answer that grows, and the likeliest tokens behind it.
struct Beam {
  double score = 0;  // the sum of its tokens' logprobs
  std::vector<TokenChance> next;
};
struct Continuation {
  uint32_t beam = 0;  // which one it goes on
  Token token = 0;
  double score = 0;  // with that token
};

// The best `count` of all continuations, best first; of equals that of the earlier beam, and there
// of the likelier token. Exact where each beam brings its `count` likeliest.
std::vector<Continuation> best_continuations(std::span<const Beam> beams, size_t count);

// What answers of different lengths are compared by: score / tokens^penalty (Wu et al. 2016,
// without the constant). tokens: at least 1.
double length_normalised(double score, uint32_t tokens, float penalty);

}  // namespace kvick::engine
