#pragma once
// Text of the help and of mistakes in a command line.

#include <span>
#include <string>
#include <string_view>

namespace kvick::cli {

// Breaks lines longer than `columns` between words. What goes on begins below the text behind an
// entry's name ("  bmc    contiguous, ..."), or where its line began.
std::string wrapped(std::string_view text, size_t columns);

// The one of the names that was likely meant by another word: the shortest that begins with it, or
// one with at most a third of its letters wrong, left out, too many or swapped with the next. Empty
// if there is none.
std::string_view nearest(std::string_view word, std::span<const std::string> names);

}  // namespace kvick::cli
