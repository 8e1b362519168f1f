#pragma once
// Beam search: finds the most probable continuations of several answers.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/answer/token_report.h"

namespace kvick::engine {

// A growing answer, and the likeliest tokens after it.
struct Beam {
  double score = 0;  // the sum of its tokens' logprobs
  std::vector<TokenChance> next;
};
struct Continuation {
  uint32_t beam = 0;  // index of the beam that it continues
  Token token = 0;
  double score = 0;  // of the beam with that token
};

// Returns the best `count` continuations, best first. Ties go to the earlier beam, then to the
// token that comes first there. Exact if each beam brings its `count` likeliest tokens.
std::vector<Continuation> best_continuations(std::span<const Beam> beams, size_t count);

// Returns the score by which answers of different lengths are compared: score / tokens^penalty (Wu
// et al. 2016, without the constant). tokens: at least 1.
double length_normalised(double score, uint32_t tokens, float penalty);

}  // namespace kvick::engine
