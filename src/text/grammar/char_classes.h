#pragma once
// Classes of characters that regular expressions have names for.

#include <optional>
#include <string_view>

#include "text/grammar/char_set.h"

namespace kvick::text {

// \d, \w, \s and, in upper case, what is none of them. ascii: Python's with re.ASCII.
CharSet class_of(char name, bool ascii);
// \p{Lu}, \p{L} and, with P, what is not of that general category; none: a text that begins with
// something else. Takes it from the text.
std::optional<CharSet> take_category(std::string_view& text);
// What '.' stands for.
CharSet any_but_line_ends(bool python);

}  // namespace kvick::text
