#pragma once
// Adds JSON strings (quotes, characters, escapes) to a grammar.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/char_nfa.h"
#include "text/grammar/char_set.h"

namespace kvick::text {

// In characters.
struct Length {
  uint32_t least = 0;
  std::optional<uint32_t> most;
};

class StringGrammar {
 public:
  explicit StringGrammar(GrammarBuilder& grammar) : grammar_(grammar), chars_(grammar) {}

  // Adds any string of that length.
  void add(const Length& length, StateId from, StateId to);
  // Adds the strings of that length that match the pattern. Error: too many states.
  base::Status<> add_matching(const CharNfa& pattern, const Length& length, StateId from,
                              StateId to);
  // Adds any string but these, without escapes (for keys that are not declared).
  void add_others(const std::vector<std::string>& names, StateId from, StateId to);

 private:
  GrammarBuilder& grammar_;
  StringChars chars_;
};

// Returns the regular expression of a `format`: date, time, date-time, uuid, email, hostname or
// ipv4. nullopt: any other format.
std::optional<std::string> pattern_of_format(std::string_view format);

}  // namespace kvick::text
