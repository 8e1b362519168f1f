#pragma once
// Text of the help and of mistakes in a command line.

#include <span>
#include <string>
#include <string_view>

namespace kvick::cli {

// Breaks lines longer than `columns` between words. A continued line is indented like the
// description of its entry ("  bmc    contiguous, ..."), or like the line itself.
std::string wrapped(std::string_view text, size_t columns);

// The one of the names that was likely meant by another word: the shortest that begins with it, or
// one with at most a third of its letters wrong, left out, too many or swapped with the next. Empty
// if there is none.
std::string_view nearest(std::string_view word, std::span<const std::string> names);

}  // namespace kvick::cli
