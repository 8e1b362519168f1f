#pragma once
// Finds marks in a text that arrives in pieces.

#include <algorithm>
#include <string_view>

namespace kvick::server {

inline constexpr std::string_view kSpace = " \t\r\n";

// Returns how many bytes at the end of the text may be the beginning of a mark.
inline size_t begun_mark(std::string_view text, std::string_view mark) {
  if (mark.empty()) return 0;
  for (size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n)
    if (text.ends_with(mark.substr(0, n))) return n;
  return 0;
}

// Returns the offset of the first character that is not white space, or the text's size.
inline size_t text_begin(std::string_view text) {
  return std::min(text.find_first_not_of(kSpace), text.size());
}
// Returns the offset after the last character that is not white space, or 0.
inline size_t text_end(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpace);
  return last == text.npos ? 0 : last + 1;
}

}  // namespace kvick::server
