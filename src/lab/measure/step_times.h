#pragma once
// From a few timed steps to what one step takes on average where they were taken.

#include <span>
#include <vector>

#include "lab/measure/intervals.h"

namespace kvick::lab {

// Seconds of one step. compile is in none of the others.
struct StepTime {
  uint32_t token = 0;  // that it added, counted from 1
  bool grew = false;   // took memory or copied
  double begin = 0, forward = 0, commit = 0, compile = 0;
  double all() const { return begin + forward + commit + compile; }
};

// Which tokens around a depth one growth serves, and one product that a library compiles.
struct Served {
  Interval growth;
  Interval product;  // one token each where nothing is compiled
};

// The tokens whose steps must be timed, ascending: the growth's first, a few after it to compare it
// with, the product's first, and `steps`, which lie behind the depth.
std::vector<uint32_t> tokens_to_time(const Served& served, bool compiles, Interval steps);

// The median of the steps behind the depth that do not grow (of all, where all do), with its share
// of the compiling and of what the growing step takes more than the median of those after it.
StepTime share_of(std::span<const StepTime> times, const Served& served, uint32_t depth);
// The step of that token.
const StepTime& step_of(std::span<const StepTime> times, uint32_t token);

}  // namespace kvick::lab
