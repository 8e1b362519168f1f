#pragma once
// Estimates the average time of a step at a depth from a few timed steps.

#include <span>
#include <vector>

#include "lab/measure/intervals.h"

namespace kvick::lab {

// Seconds of one step. The other times do not include compile.
struct StepTime {
  uint32_t token = 0;  // the token that it added, counted from 1
  bool grew = false;   // allocated memory or copied rows
  double begin = 0, forward = 0, commit = 0, compile = 0;
  double all() const { return begin + forward + commit + compile; }
};

// The tokens, around a depth, that share one growth and those that share one compiled product.
struct Served {
  Interval growth;
  Interval product;  // a single token if nothing is compiled
};

// Returns the tokens whose steps must be timed, ascending: the first one of the growth, a few after
// it for comparison, the first one of the product, and `steps`, which follow the depth.
std::vector<uint32_t> tokens_to_time(const Served& served, bool compiles, Interval steps);

// Returns the median of the steps after the depth that do not grow (of all if all grow), plus a
// token's share of the compilation and of the growing step's extra time over the steps after it.
StepTime share_of(std::span<const StepTime> times, const Served& served, uint32_t depth);
// Returns the step that added this token.
const StepTime& step_of(std::span<const StepTime> times, uint32_t token);

}  // namespace kvick::lab
