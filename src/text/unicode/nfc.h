#pragma once
// Unicode's normalization form C: characters that have a composed form are in it (UAX 15).

#include <optional>
#include <string>
#include <string_view>

namespace kvick::text {

// Returns the text in form C, or nullopt if it has that form already. Bytes that are not UTF-8 are
// kept, and nothing is composed across them. Time is linear in the text but for sorting the marks
// that follow one character; only texts that change are copied.
std::optional<std::string> to_nfc(std::string_view text);

}  // namespace kvick::text
