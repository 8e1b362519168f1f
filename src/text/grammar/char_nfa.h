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
    // While a pattern is parsed only: skips where a word begins or ends (true), or where none does;
    // and skips behind a character of a word (true), or behind others and at the start.
    std::vector<std::pair<bool, uint32_t>> boundaries, behind;
  };
  std::vector<State> states;
  uint32_t start = 0, end = 0;
};

enum class PatternKind : uint8_t {
  kSearched,  // strings that contain a match, as ECMA 262 reads the pattern in Unicode mode
  kWhole,     // strings that match as a whole, as Python's re reads the pattern with re.ASCII
};

// Parses literals, escapes, classes, groups with and without names, alternatives, greedy and lazy
// repetitions (which accept the same texts), ^ at the beginning and $ at the end of a top-level
// alternative, (?i) at the beginning and (?i:...), which ignore case, and \b and \B. Escapes are \d
// \w \s \D \W \S \n \r \t \f \v \0 \xHH \uHHHH, ECMA's \u{H} \cX \p{Lu} \P{L}, and Python's \a
// \UHHHHHHHH \A \Z. Python also has comments. ECMA also has look-aheads in top-level alternatives,
// and both $ and look-aheads in a group at the end of one, and (?i) behind a ^ that begins the
// pattern. Error: anything else, and where.
base::Result<CharNfa> parse_pattern(std::string_view pattern,
                                    PatternKind kind = PatternKind::kSearched);

}  // namespace kvick::text
