#pragma once
// How the floats that ranks add up travel between machines.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kvick::model {

enum class WireFormat : uint8_t {
  kF32,   // as they are
  kBf16,  // rounded to bfloat16
  kInt8,  // groups of kWireGroup: integers of 8 bits, and a scale in bfloat16
};
inline constexpr size_t kWireGroup = 32;

std::string_view wire_name(WireFormat format);
// Bytes that `count` floats take in this format.
size_t wire_bytes(WireFormat format, size_t count);
// to: wire_bytes(format, from.size()) bytes. kInt8 divides by the group's scale, its largest
// magnitude / 127 rounded up to bfloat16: an error of at most half the scale. An infinity or NaN
// makes the whole group NaN; groups below 1e-35 become zeros.
void to_wire(WireFormat format, std::span<const float> from, std::byte* to);
// from_wire: the inverse. add_from_wire: the same, added to the floats in `to`.
void from_wire(WireFormat format, const std::byte* from, std::span<float> to);
void add_from_wire(WireFormat format, const std::byte* from, std::span<float> to);

}  // namespace kvick::model
