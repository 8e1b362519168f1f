#pragma once
// Wraps help texts, and finds the name meant by a mistyped word.

#include <span>
#include <string>
#include <string_view>

namespace kvick::cli {

// Breaks lines longer than `columns` between words. A continued line is indented like the
// description of its entry ("  bmc    contiguous, ..."), or like the line itself.
std::string wrapped(std::string_view text, size_t columns);

// Returns the name that was probably meant by another word: the shortest that begins with the word,
// or one with at most a third of its letters wrong, missing, added or swapped with the next. Empty
// if there is none.
std::string_view nearest(std::string_view word, std::span<const std::string> names);

}  // namespace kvick::cli
