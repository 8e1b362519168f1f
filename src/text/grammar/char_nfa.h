#pragma once
// Regular expressions over characters.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/grammar/char_set.h"

namespace kvick::text {

// A nondeterministic automaton over code points, from state `start` to state `end`.
struct CharNfa {
  static constexpr size_t kMostStates = 10'000;
  struct State {
    std::vector<uint32_t> skips;
    std::vector<std::pair<CharSet, uint32_t>> edges;
  };
  std::vector<State> states;
  uint32_t start = 0, end = 0;
};

// The strings in which the pattern is found, as ECMA 262 reads it in Unicode mode: literals,
// escapes
// (\d \w \s \D \W \S \n \r \t \f \v \0 \xHH \uHHHH \u{H} \cX), classes, groups, alternatives,
// greedy and lazy repetitions (which accept the same), ^ at the beginning and $ at the end of a
// top-level alternative. Error: what is none of these, and where.
base::Result<CharNfa> parse_pattern(std::string_view pattern);

}  // namespace kvick::text
