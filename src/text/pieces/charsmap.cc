#include "text/pieces/charsmap.h"

#include <cstring>

#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

// A unit of the double array holds the offset of its children, the byte that leads to it, and
// whether an entry ends here. A unit that holds an entry's value has bit 31 set instead of a byte.
constexpr uint32_t kValue = 1U << 31;
uint32_t children_of(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }
uint32_t label_of(uint32_t unit) { return unit & (kValue | 0xFF); }
bool has_entry(uint32_t unit) { return (unit >> 8 & 1) != 0; }

}  // namespace

base::Result<Charsmap> Charsmap::read(std::string_view bytes) {
  Charsmap map;
  if (bytes.empty()) return map;
  uint32_t size = 0;
  if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(std::min(bytes.size(), sizeof(size)));
  if (size == 0 || size % sizeof(uint32_t) != 0 || size >= bytes.size())
    return base::fail("the tokenizer's precompiled_charsmap has an array of {} bytes in {}", size,
                      bytes.size());
  map.units_.resize(size / sizeof(uint32_t));
  std::memcpy(map.units_.data(), bytes.data(), size);
  map.texts_ = bytes.substr(size);
  if (map.texts_.back() != '\0')
    return base::fail("the last text of the tokenizer's precompiled_charsmap has no end");
  return map;
}

Charsmap::Replaced Charsmap::replace(std::string_view text) const {
  Replaced longest;
  uint32_t at = 0;
  for (size_t i = 0; i <= text.size() && at < units_.size(); ++i) {
    const uint32_t unit = units_[at], base = at ^ children_of(unit);
    if (i > 0 && has_entry(unit) && base < units_.size()) {
      const uint32_t value = units_[base] & ~kValue;
      if (value < texts_.size()) longest = {texts_.c_str() + value, i};
    }
    if (i == text.size()) break;
    const auto byte = static_cast<uint8_t>(text[i]);
    at = base ^ byte;
    if (byte == 0 || at >= units_.size() || label_of(units_[at]) != byte) break;
  }
  if (longest.bytes > 0) return longest;
  const Utf8 next = decode_utf8(text);
  if (next.valid) return {text.substr(0, next.bytes), next.bytes};
  return {"\xEF\xBF\xBD", 1};
}

}  // namespace kvick::text
