#pragma once
// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF (Unicode 15, table
// 3-7).

#include <cstdint>
#include <string>
#include <string_view>

namespace kvick::text {

// The character, or invalid bytes, at the start of some bytes.
struct Utf8 {
  uint32_t code = 0;  // the code point, if valid
  uint8_t bytes =
      1;  // its length; if not valid, that of the longest start of a character there, at least 1
  bool valid = false;
  bool cut = false;  // not valid, but more bytes behind the end of the text could make it so
};

// text: not empty.
Utf8 decode_utf8(std::string_view text);

void append_utf8(uint32_t code, std::string& out);

// Moves the whole characters at the start of `bytes` to `out`; what can never become a character
// turns into U+FFFD, one per longest start of a character (as web browsers do). What is left in
// `bytes` is a character's start, at most three bytes; with `all` that becomes U+FFFD, too.
void drain_utf8(std::string& bytes, bool all, std::string& out);

}  // namespace kvick::text
