#include "text/unicode/classes.h"

#include <utf8proc.h>

#include "text/unicode/utf8.h"

namespace kvick::text {

bool is_white_space(uint32_t code) {
  return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word_character(uint32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  if (category == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D) return true;
  // Letters in circles and squares are symbols, but Unicode counts them as alphabetic.
  const bool circled = (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
                       (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
  return circled || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL);
}

size_t last_character_bytes(std::string_view text) {
  for (size_t bytes = 2; bytes <= 4 && bytes <= text.size(); ++bytes) {
    const Utf8 character = decode_utf8(text.substr(text.size() - bytes));
    if (character.valid && character.bytes == bytes) return bytes;
  }
  return 1;
}

}  // namespace kvick::text
