#include "kernels/formats/kivi.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvick::kernels {
namespace {

// Returns the scale of 32 numbers, `step` floats apart.
KiviScale scale_of(const float* in, size_t step) {
  float least = in[0], most = in[0], not_finite = 0;
  for (size_t i = 0; i < kRowGroup; ++i) {
    least = std::min(least, in[i * step]);
    most = std::max(most, in[i * step]);
    not_finite += in[i * step] * 0;
  }
  return kivi_scale(least, most + not_finite);
}

uint8_t code_of(float x, const KiviScale& scale) {
  const float code = (x - scale.zero) * scale.inverse;
  const float low = code < kKiviMost ? code : kKiviMost;  // also if NaN
  return static_cast<uint8_t>(std::nearbyint(low > 0 ? low : 0));
}

float value_of(const std::byte* row, size_t d, const std::byte* pair) {
  const auto byte = static_cast<uint8_t>(row[d / 32 * 16 + d % 16]);
  uint16_t halves[2];
  std::memcpy(halves, pair, sizeof halves);
  const int code = d % 32 < 16 ? byte & 15 : byte >> 4;
  return static_cast<float>(code) * f16_to_f32(halves[0]) + f16_to_f32(halves[1]);
}

}  // namespace

KiviScale kivi_scale(float least, float most) {
  constexpr uint16_t kNaN = 0x7e00;
  const uint16_t zero = f32_to_f16(least + 0.0F);  // never -0, so that implementations agree
  const uint16_t scale = f32_to_f16((most - f16_to_f32(zero)) / kKiviMost);
  const float value = f16_to_f32(scale);
  if (!std::isfinite(value) || !std::isfinite(f16_to_f32(zero))) return {{kNaN, 0}, 0, 0};
  // If the zero point was rounded up to the largest number, the range is zero or negative.
  if (value <= 0) return {{0, zero}, f16_to_f32(zero), 0};
  return {{scale, zero}, f16_to_f32(zero), 1 / value};
}

void kivi_row_to_f32(const std::byte* in, size_t n, float* out) {
  for (size_t d = 0; d < n; ++d)
    out[d] = value_of(in, d, in + n / 2 + d / kRowGroup * kKiviPairBytes);
}

void kivi_row_from_f32(const float* in, size_t n, std::byte* out) {
  for (size_t group = 0; group < n / kRowGroup; ++group) {
    const float* x = in + group * kRowGroup;
    const KiviScale scale = scale_of(x, 1);
    uint8_t codes[kRowGroup];
    for (uint32_t i = 0; i < kRowGroup; ++i) codes[i] = code_of(x[i], scale);
    pack_nibbles(codes, out + group * kRowGroup / 2);
    std::memcpy(out + n / 2 + group * kKiviPairBytes, scale.halves, kKiviPairBytes);
  }
}

void group_to_f32(DType type, const std::byte* const* rows, size_t n, float* out) {
  check_group_type(type, n);
  const size_t in_row = n / kRowGroup;  // channels whose scales a row stores
  for (size_t d = 0; d < n; ++d) {
    const std::byte* pair = rows[d / in_row] + n / 2 + d % in_row * kKiviPairBytes;
    for (size_t i = 0; i < kRowGroup; ++i) out[i * n + d] = value_of(rows[i], d, pair);
  }
}

void group_from_f32(DType type, const float* in, size_t stride, size_t n, std::byte* const* rows) {
  check_group_type(type, n);
  const size_t in_row = n / kRowGroup;
  for (size_t first = 0; first < n; first += kRowGroup) {
    uint8_t codes[kRowGroup][kRowGroup];  // [row][channel]
    for (size_t c = 0; c < kRowGroup; ++c) {
      const size_t d = first + c;
      const KiviScale scale = scale_of(in + d, stride);
      for (size_t i = 0; i < kRowGroup; ++i) codes[i][c] = code_of(in[i * stride + d], scale);
      std::memcpy(rows[d / in_row] + n / 2 + d % in_row * kKiviPairBytes, scale.halves,
                  kKiviPairBytes);
    }
    for (size_t i = 0; i < kRowGroup; ++i) pack_nibbles(codes[i], rows[i] + first / 2);
  }
}

}  // namespace kvick::kernels
