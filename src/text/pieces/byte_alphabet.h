#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "text/unicode/utf8.h"

namespace kvick::text {

// GPT-2's printable stand-ins for the 256 bytes: the printable bytes of Latin-1 stand for
// themselves, the others are U+0100 and up, in order.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    bytes_.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      letters_[byte] = itself ? byte : next++;
      bytes_[letters_[byte]] = static_cast<int16_t>(byte);
    }
  }
  std::string letter(uint8_t byte) const {
    std::string out;
    append_utf8(letters_[byte], out);
    return out;
  }
  // Returns the bytes that a piece stands for, or nullopt if it has a character outside of the
  // alphabet.
  std::optional<std::string> bytes(std::string_view piece) const {
    std::string out;
    while (!piece.empty()) {
      const Utf8 next = decode_utf8(piece);
      if (!next.valid || next.code >= bytes_.size() || bytes_[next.code] < 0) return std::nullopt;
      out += static_cast<char>(bytes_[next.code]);
      piece.remove_prefix(next.bytes);
    }
    return out;
  }

 private:
  std::array<uint32_t, 256> letters_{};
  std::array<int16_t, 0x144> bytes_{};
};

}  // namespace kvick::text
