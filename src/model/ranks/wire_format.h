#pragma once
// The format of the floats that ranks on several machines send each other to add up.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kvick::model {

enum class WireFormat : uint8_t {
  kF32,   // unchanged
  kBf16,  // rounded to bfloat16
  kInt8,  // groups of kWireGroup: 8-bit integers and a bfloat16 scale
};
inline constexpr size_t kWireGroup = 32;

std::string_view wire_name(WireFormat format);
// Returns the bytes of `count` floats in this format.
size_t wire_bytes(WireFormat format, size_t count);
// Writes floats to `to`, wire_bytes(format, from.size()) bytes. kInt8 divides by the group's scale,
// which is its largest magnitude / 127 rounded up to bfloat16, so the error is at most half the
// scale. An infinity or NaN makes the whole group NaN. Groups below 1e-35 become zeros.
void to_wire(WireFormat format, std::span<const float> from, std::byte* to);
// from_wire reads what to_wire has written. add_from_wire adds it to the floats in `to`.
void from_wire(WireFormat format, const std::byte* from, std::span<float> to);
void add_from_wire(WireFormat format, const std::byte* from, std::span<float> to);

}  // namespace kvick::model
