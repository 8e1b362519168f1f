#include "text/unicode/nfc.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utf8proc.h>
#include <vector>

#include "base/check.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

// No character decomposes into more.
constexpr int kMostParts = 32;
using Parts = std::array<utf8proc_int32_t, kMostParts>;

// Composing what a composed form may not contain would not be form C: hence "stable".
constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

size_t decompose(uint32_t code, Parts& parts) {
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(), kMostParts,
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), &boundary);
  KVICK_CHECK(count > 0 && count <= kMostParts, "{} parts of the character {}", count, code);
  return static_cast<size_t>(count);
}

size_t compose(std::span<utf8proc_int32_t> codes) {
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), kCompose);
  KVICK_CHECK(count >= 0, "composing {} characters gave {}", codes.size(), count);
  return static_cast<size_t>(count);
}

// Returns whether a character neither changes nor composes with the one before it, so that the text
// before it and the text from it on have their forms separately.
bool is_settled(uint32_t code) {
  const auto within = [&](uint32_t first, uint32_t last) { return code >= first && code <= last; };
  if (code < 0x300) return true;
  if (within(0x3400, 0x9FFF) || within(0xAC00, 0xD7A3)) return true;  // ideographs and Hangul
  // Single letters of Hangul and vowels of Kirat Rai compose though they are not marks.
  if (within(0x1100, 0x11FF) || within(0x16D40, 0x16D7F)) return false;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  if (category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME) return false;
  Parts parts{};
  size_t count = decompose(code, parts);
  if (count > 1) count = compose(std::span(parts).first(count));
  return count == 1 && static_cast<uint32_t>(parts[0]) == code;
}

// Returns the end of the ASCII characters from i on.
size_t ascii_end(std::string_view text, size_t i) {
  for (uint64_t eight = 0; i + sizeof eight <= text.size(); i += sizeof eight) {
    std::memcpy(&eight, text.data() + i, sizeof eight);
    if ((eight & 0x8080808080808080) != 0) break;
  }
  while (i < text.size() && static_cast<uint8_t>(text[i]) < 0x80) ++i;
  return i;
}

// Returns form C of valid UTF-8.
std::string composed(std::string_view text) {
  std::vector<utf8proc_int32_t> codes;
  Parts parts{};
  while (!text.empty()) {
    const Utf8 next = decode_utf8(text);
    codes.insert(codes.end(), parts.begin(),
                 parts.begin() + static_cast<std::ptrdiff_t>(decompose(next.code, parts)));
    text.remove_prefix(next.bytes);
  }
  // utf8proc would sort marks by exchanging neighbours, in quadratic time.
  const auto rank = [](utf8proc_int32_t code) {
    return utf8proc_get_property(code)->combining_class;
  };
  for (auto at = codes.begin(); at != codes.end();) {
    const auto end = std::find_if(at, codes.end(), [&](auto code) { return rank(code) == 0; });
    std::stable_sort(at, end, [&](auto a, auto b) { return rank(a) < rank(b); });
    at = end == codes.end() ? end : end + 1;
  }
  codes.resize(compose(codes));
  std::string out;
  for (const utf8proc_int32_t code : codes) append_utf8(static_cast<uint32_t>(code), out);
  return out;
}

}  // namespace

std::optional<std::string> to_nfc(std::string_view text) {
  std::optional<std::string> out;
  size_t copied = 0;  // bytes of the text that are in `out`, in form C
  size_t from = 0;    // where a piece begins that ends before the next settled character
  for (size_t i = 0; i < text.size();) {
    if (const size_t end = ascii_end(text, i); end > i) {
      from = end - 1;
      i = end;
      continue;
    }
    Utf8 next = decode_utf8(text.substr(i));
    if (!next.valid || is_settled(next.code)) {
      from = next.valid ? i : i + next.bytes;
      i += next.bytes;
      continue;
    }
    while (next.valid && !is_settled(next.code)) {
      i += next.bytes;
      next = i < text.size() ? decode_utf8(text.substr(i)) : Utf8{};
    }
    const std::string_view piece = text.substr(from, i - from);
    if (const std::string form = composed(piece); form != piece) {
      if (!out) out.emplace();
      out->append(text.substr(copied, from - copied)).append(form);
      copied = i;
    }
    from = i;
  }
  if (out) out->append(text.substr(copied));
  return out;
}

}  // namespace kvick::text
