#pragma once
// Classes of characters as regular expressions have them.

#include <cstdint>
#include <string_view>

namespace kvick::text {

// \s: Unicode's White_Space, the meaning in the engines with which models were trained.
bool is_white_space(uint32_t code);
// \w of Rust's regular expressions: letters, marks, decimal digits and what joins words.
bool is_word_character(uint32_t code);

// Returns the size of the last character of a text that is not empty; 1 for a byte that is not part
// of valid UTF-8.
size_t last_character_bytes(std::string_view text);

}  // namespace kvick::text
