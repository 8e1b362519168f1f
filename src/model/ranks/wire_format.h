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
// Of so many floats.
size_t wire_bytes(WireFormat format, size_t count);
// to: wire_bytes. An integer of a group is the float over the group's scale, which is its largest
// magnitude over 127, rounded up to bfloat16: an error of at most half of that. Infinite ones and
// those that are not numbers make their whole group not a number; groups below 1e-35 are zeros.
void to_wire(WireFormat format, std::span<const float> from, std::byte* to);
// The inverse, and the same added to what is there.
void from_wire(WireFormat format, const std::byte* from, std::span<float> to);
void add_from_wire(WireFormat format, const std::byte* from, std::span<float> to);

}  // namespace kvick::model
