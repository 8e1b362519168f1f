#pragma once
// Estimates the average time of a step at a depth from a few timed steps.

#include <span>
#include <vector>

#include "lab/measure/intervals.h"

namespace kvick::lab {

// Seconds of one step. The others do not include compile.
struct StepTime {
  uint32_t token = 0;  // that it added, counted from 1
  bool grew = false;   // took memory or copied
  double begin = 0, forward = 0, commit = 0, compile = 0;
  double all() const { return begin + forward + commit + compile; }
};

// The tokens around a depth that one growth serves, and those that one compiled product serves.
struct Served {
  Interval growth;
  Interval product;  // a single token if nothing is compiled
};

// The tokens whose steps must be timed, ascending: the growth's first, a few after it to compare it
// with, the product's first, and `steps`, which lie behind the depth.
std::vector<uint32_t> tokens_to_time(const Served& served, bool compiles, Interval steps);

// The median of the steps after the depth that do not grow (of all, if all grow), plus its share of
// compiling and of the growing step's excess over the median of the steps after it.
StepTime share_of(std::span<const StepTime> times, const Served& served, uint32_t depth);
// The step of that token.
const StepTime& step_of(std::span<const StepTime> times, uint32_t token);

}  // namespace kvick::lab
