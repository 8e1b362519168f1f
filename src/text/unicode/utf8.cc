#include "text/unicode/utf8.h"

namespace kvick::text {

Utf8 decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1, true, false};
  if (first < 0xC2 || first > 0xF4) return {};
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // Only the second byte's range depends on the first. This range excludes overlong forms and
  // surrogates.
  uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  uint32_t code = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {0, static_cast<uint8_t>(i), false, true};
    if (byte(i) < low || byte(i) > high) return {0, static_cast<uint8_t>(i), false, false};
    code = code << 6 | (byte(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {code, static_cast<uint8_t>(length), true, false};
}

void append_utf8(uint32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

void drain_utf8(std::string& bytes, bool all, std::string& out) {
  const std::string_view view = bytes;
  size_t at = 0;
  while (at < view.size()) {
    const Utf8 next = decode_utf8(view.substr(at));
    if (next.cut && !all) break;
    if (next.valid) {
      out += view.substr(at, next.bytes);
    } else {
      append_utf8(0xFFFD, out);
    }
    at += next.bytes;
  }
  bytes.erase(0, at);
}

}  // namespace kvick::text
