#pragma once
// Classes of characters that regular expressions have names for.

#include "text/grammar/char_set.h"

namespace kvick::text {

// \d, \w, \s and, in upper case, what is none of them. ascii: Python's with re.ASCII.
CharSet class_of(char name, bool ascii);
// What '.' stands for.
CharSet any_but_line_ends(bool python);

}  // namespace kvick::text
