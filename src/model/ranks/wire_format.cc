#include "model/ranks/wire_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/formats/dtype.h"

namespace kvick::model {
namespace {

constexpr size_t kGroupBytes = sizeof(uint16_t) + kWireGroup;
constexpr float kMostInt8 = 127;
// A group whose largest magnitude is below this is sent as zeros, because the inverse of its scale
// would be infinite.
constexpr float kZero = 1e-35F;

float f32_of(uint16_t bf16) { return std::bit_cast<float>(uint32_t{bf16} << 16); }

// Groups are stored one after another: a scale, then the group's integers. The last group may be
// shorter.
void to_int8(std::span<const float> from, std::byte* to) {
  for (; !from.empty(); to += kGroupBytes) {
    const auto group = from.first(std::min(kWireGroup, from.size()));
    from = from.subspan(group.size());
    float most = 0;
    bool numbers = true;
    for (const float x : group) {
      most = std::max(most, std::abs(x));
      numbers &= std::abs(x) <= std::numeric_limits<float>::max();
    }
    // The scale is rounded up, so that no integer exceeds 127.
    uint16_t scale = kernels::f32_to_bf16(most / kMostInt8);
    if (f32_of(scale) * kMostInt8 < most) ++scale;
    if (most < kZero) scale = 0;
    if (!numbers) scale = kernels::f32_to_bf16(std::numeric_limits<float>::quiet_NaN());
    const float inverse = numbers && scale > 0 ? 1 / f32_of(scale) : 0;
    std::memcpy(to, &scale, sizeof scale);
    // 1.5 * 2^23: floats of that size have no fraction, so adding it rounds x to an integer, which
    // is then in the lowest 8 bits of the sum.
    constexpr float kRound = 12582912;
    for (size_t i = 0; i < group.size(); ++i) {
      const float x = inverse > 0 ? group[i] * inverse : 0;
      to[sizeof scale + i] = static_cast<std::byte>(std::bit_cast<uint32_t>(x + kRound) & 0xFF);
    }
  }
}

template <bool kAdds>
void of_int8(const std::byte* from, std::span<float> to) {
  for (; !to.empty(); from += kGroupBytes) {
    const auto group = to.first(std::min(kWireGroup, to.size()));
    to = to.subspan(group.size());
    uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    const float scale = f32_of(bits);
    for (size_t i = 0; i < group.size(); ++i) {
      const float x = static_cast<float>(static_cast<int8_t>(from[sizeof bits + i])) * scale;
      group[i] = kAdds ? group[i] + x : x;
    }
  }
}

template <bool kAdds>
void of_bf16(const std::byte* from, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    to[i] = kAdds ? to[i] + f32_of(bits) : f32_of(bits);
  }
}

}  // namespace

std::string_view wire_name(WireFormat format) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "int8"};
  return kNames[static_cast<size_t>(format)];
}

size_t wire_bytes(WireFormat format, size_t count) {
  switch (format) {
    case WireFormat::kF32:
      return count * sizeof(float);
    case WireFormat::kBf16:
      return count * sizeof(uint16_t);
    case WireFormat::kInt8:
      return count + (count + kWireGroup - 1) / kWireGroup * sizeof(uint16_t);
  }
  return 0;
}

void to_wire(WireFormat format, std::span<const float> from, std::byte* to) {
  switch (format) {
    case WireFormat::kF32:
      if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
      return;
    case WireFormat::kBf16:
      for (size_t i = 0; i < from.size(); ++i) {
        const uint16_t bits = kernels::f32_to_bf16(from[i]);
        std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
      }
      return;
    case WireFormat::kInt8:
      return to_int8(from, to);
  }
}

void from_wire(WireFormat format, const std::byte* from, std::span<float> to) {
  switch (format) {
    case WireFormat::kF32:
      if (!to.empty()) std::memcpy(to.data(), from, to.size_bytes());
      return;
    case WireFormat::kBf16:
      return of_bf16<false>(from, to);
    case WireFormat::kInt8:
      return of_int8<false>(from, to);
  }
}

void add_from_wire(WireFormat format, const std::byte* from, std::span<float> to) {
  switch (format) {
    case WireFormat::kF32:
      for (size_t i = 0; i < to.size(); ++i) {
        float x = 0;
        std::memcpy(&x, from + i * sizeof x, sizeof x);
        to[i] += x;
      }
      return;
    case WireFormat::kBf16:
      return of_bf16<true>(from, to);
    case WireFormat::kInt8:
      return of_int8<true>(from, to);
  }
}

}  // namespace kvick::model
