#include "kernels/formats/cache_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace kvick::kernels {
namespace {

// Returns the value of the largest magnitude, or NaN if a value is not finite.
float extreme_of(const float* in) {
  float low = 0, high = 0, not_finite = 0;
  for (uint32_t i = 0; i < kRowGroup; ++i) {
    low = std::min(low, in[i]);
    high = std::max(high, in[i]);
    not_finite += in[i] * 0;
  }
  return (-low > high ? low : high) + not_finite;
}

uint16_t half_at(const std::byte* in, size_t i) {
  uint16_t half;
  std::memcpy(&half, in + i * sizeof half, sizeof half);
  return half;
}

float level_at(DType type, const std::byte* group, size_t i) {
  const auto bit = [&](size_t at) {
    return static_cast<int>(static_cast<uint8_t>(group[at / 8]) >> at % 8) & 1;
  };
  int code = bit(2 * i) + 2 * bit(2 * i + 1);
  if (type == DType::kQ3) code += 4 * bit(64 + i);
  const LevelTable table = level_table(type);
  const float magnitude = table.magnitude[code % table.magnitudes];
  return code < table.magnitudes ? magnitude : -magnitude;
}

// Returns the index of the nearest magnitude.
int magnitude_of(const LevelTable& table, float size, float scale) {
  int code = 0;
  while (code + 1 < table.magnitudes && size > scale * table.middle(code + 1)) ++code;
  return code;
}

void levels_from_f32(DType type, const float* x, std::byte* codes_out, uint16_t& half) {
  const LevelTable table = level_table(type);
  const float most = std::abs(extreme_of(x)), inverse = level_inverse(most);
  float t[kRowGroup], squares = 0;
  for (uint32_t i = 0; i < kRowGroup; ++i) {
    t[i] = inverse == 0 ? 0 : std::nearbyint(x[i] * inverse);
    squares += t[i] * t[i];
  }
  float scale = first_level_scale(type, squares);
  for (int fit = 0; fit < kLevelFits; ++fit) {
    float product = 0, square = 0;
    for (const float one : t) {
      const float level = table.magnitude[magnitude_of(table, std::abs(one), scale)];
      product += std::abs(one) * level;
      square += level * level;
    }
    scale = product / square;
  }
  uint8_t codes[kRowGroup];
  for (uint32_t i = 0; i < kRowGroup; ++i)
    codes[i] = static_cast<uint8_t>(magnitude_of(table, std::abs(t[i]), scale) +
                                    (t[i] < 0 ? table.magnitudes : 0));
  pack_levels(type, codes, codes_out);
  half = level_scale(scale, most);
}

}  // namespace

GroupScale group_scale(DType type, float extreme) {
  constexpr uint16_t kNaN = 0x7e00, kInfinity = 0x7c00, kMagnitude = 0x7fff;
  const float wanted = type == DType::kQ4 ? extreme / -8 : std::abs(extreme) / 127;
  if (!std::isfinite(wanted)) return {kNaN, 0};
  uint16_t half = f32_to_f16(wanted);
  if (std::abs(f16_to_f32(half)) < std::abs(wanted)) ++half;
  if ((half & kMagnitude) >= kInfinity) return {kNaN, 0};
  const float scale = f16_to_f32(half);
  return {half, scale == 0 ? 0 : 1 / scale};
}

float level_inverse(float most) {
  return most > 0x1p-100F && std::isfinite(most) ? kMostLevel / most : 0;  // NaN: 0
}

float first_level_scale(DType type, float sum_of_squares) {
  return std::sqrt(sum_of_squares / kRowGroup) / level_table(type).deviation;
}

uint16_t level_scale(float scale, float most) {
  constexpr uint16_t kNaN = 0x7e00, kInfinity = 0x7c00;
  if (!std::isfinite(most)) return kNaN;
  const uint16_t half = f32_to_f16(scale * (most / kMostLevel));
  return half >= kInfinity ? kNaN : half;
}

void pack_levels(DType type, const uint8_t* codes, std::byte* out) {
  uint32_t words[3] = {0, 0, 0};
  for (uint32_t i = 0; i < kRowGroup; ++i) {
    words[i / 16] |= (codes[i] & 3U) << i % 16 * 2;
    words[2] |= (codes[i] >> 2U & 1U) << i;
  }
  std::memcpy(out, words, code_bytes(type, kRowGroup));
}

void pack_nibbles(const uint8_t* codes, std::byte* out) {
  for (int i = 0; i < 2; ++i) {
    uint64_t low, high;
    std::memcpy(&low, codes + 8 * i, sizeof low);
    std::memcpy(&high, codes + 16 + 8 * i, sizeof high);
    low |= high << 4;
    std::memcpy(out + 8 * i, &low, sizeof low);
  }
}

void cache_row_to_f32(DType type, const std::byte* in, size_t n, float* out) {
  const std::byte* scales = in + code_bytes(type, n);
  for (size_t i = 0; i < n; ++i) {
    const size_t group = i / kRowGroup, within = i % kRowGroup;
    if (is_level_code(type)) {
      out[i] = level_at(type, in + group * code_bytes(type, kRowGroup), within) *
               f16_to_f32(half_at(scales, group));
      continue;
    }
    int code;
    if (type == DType::kQ8) {
      code = static_cast<int8_t>(in[i]);
    } else {
      const auto pair = static_cast<uint8_t>(in[group * 16 + within % 16]);
      code = (within < 16 ? pair & 15 : pair >> 4) - code_range(type).middle;
    }
    out[i] = static_cast<float>(code) * f16_to_f32(half_at(scales, group));
  }
}

void cache_row_from_f32(DType type, const float* in, size_t n, std::byte* out) {
  const CodeRange range = code_range(type);
  std::byte* scales = out + code_bytes(type, n);
  for (size_t group = 0; group < n / kRowGroup; ++group) {
    const float* x = in + group * kRowGroup;
    if (is_level_code(type)) {
      uint16_t half;
      levels_from_f32(type, x, out + group * code_bytes(type, kRowGroup), half);
      std::memcpy(scales + group * sizeof half, &half, sizeof half);
      continue;
    }
    const GroupScale scale = group_scale(type, extreme_of(x));
    uint8_t codes[kRowGroup];
    for (uint32_t i = 0; i < kRowGroup; ++i) {
      const float rounded = scale.inverse == 0 ? 0 : std::nearbyint(x[i] * scale.inverse);
      const int code = std::clamp(static_cast<int>(rounded) + range.middle, range.low, range.high);
      codes[i] = static_cast<uint8_t>(code);
    }
    if (type == DType::kQ8)
      std::memcpy(out + group * kRowGroup, codes, kRowGroup);
    else
      pack_nibbles(codes, out + group * kRowGroup / 2);
    std::memcpy(scales + group * sizeof scale.half, &scale.half, sizeof scale.half);
  }
}

void check_group_type(DType type, size_t n) {
  KVICK_CHECK(rows_together(type) == kRowGroup && n % kRowGroup == 0,
              "groups of rows of {} values of type {}", n, dtype_info(type).name);
}

}  // namespace kvick::kernels
