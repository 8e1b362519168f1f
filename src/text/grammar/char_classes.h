#pragma once
// The named character classes of regular expressions.

#include <optional>
#include <string_view>

#include "text/grammar/char_set.h"

namespace kvick::text {

// Returns the class of \d, \w or \s or, for an upper-case name, its complement. ascii: as in Python
// with re.ASCII.
CharSet class_of(char name, bool ascii);
// Reads \p{Lu} or \p{L} (a general category), or \P{...} (its complement), from the text after the
// backslash, and removes it from the text. nullopt: the text begins with something else.
std::optional<CharSet> take_category(std::string_view& text);
// Returns the set together with the other cases of its letters. ascii: of ASCII's letters only.
CharSet with_other_cases(const CharSet& set, bool ascii);
// Returns the characters that '.' matches.
CharSet any_but_line_ends(bool python);

}  // namespace kvick::text
