#pragma once
// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF (Unicode 15, table 3-7).

#include <cstdint>
#include <string>
#include <string_view>

namespace kvick::text {

// The character at the start of some bytes, or what is invalid there.
struct Utf8 {
  uint32_t code = 0;  // the code point, if valid
  uint8_t bytes =
      1;  // the length; if invalid, that of the longest start of a character, at least 1
  bool valid = false;
  bool cut = false;  // not valid, but bytes after the end of the text could complete it
};

// text: not empty.
Utf8 decode_utf8(std::string_view text);

void append_utf8(uint32_t code, std::string& out);

// Moves the whole characters at the start of `bytes` to `out`. Bytes that can never become a
// character are replaced by U+FFFD, one per longest start of a character (as web browsers do). An
// incomplete character of at most three bytes stays in `bytes`; with `all` it is replaced by
// U+FFFD, too.
void drain_utf8(std::string& bytes, bool all, std::string& out);

}  // namespace kvick::text
