#pragma once
// Finds the scales and codes of a group of weights with the smallest weighted squared error, sum of
// w[i] * (x[i] - value[i])^2. Each fit tries scales near the one that the extremes suggest. For the
// codes of each, it computes the best scale by linear least squares. It returns the best of all.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::quantize {

inline constexpr size_t kSmall = 32, kSuper = 256;  // weights of a block

// Stores a value rounded to float16 and returns the rounded value.
inline float put_half(float value, uint16_t& half) {
  constexpr float kMostHalf = 65504;
  half = kernels::f32_to_f16(std::clamp(value, -kMostHalf, kMostHalf));
  return kernels::f16_to_f32(half);
}
inline int nearest(float x, int low, int high) {
  return static_cast<int>(
      std::nearbyint(std::min(std::max(x, static_cast<float>(low)), static_cast<float>(high))));
}
inline float divide(float x, float by) { return by != 0 ? x / by : 0; }

// In the templates, N is the number of weights in a group, 16 or 32. All x are finite, all w above
// 0.

// Fits value = scale * code, with codes in low..high.
template <size_t N>
float fit_scale(const float* x, const float* w, int low, int high);

// value = scale * code + min, with codes in 0..top and scale >= 0; min <= 0 unless free_min.
struct Line {
  float scale = 0, min = 0;
};
template <size_t N>
Line fit_line(const float* x, const float* w, int top, bool free_min);

// Find the codes nearest to x for a given scale or line; return their weighted squared error.
template <size_t N>
float round_to_scale(const float* x, const float* w, float scale, int low, int high, float* code);
template <size_t N>
float round_to_line(const float* x, const float* w, Line line, int top, float* code);

// The sixteen values of the codes, ascending.
using Levels = std::array<float, 16>;
// Fits value = scale * levels[code].
template <size_t N>
float fit_levels(const float* x, const float* w, const Levels& levels);
template <size_t N>
float round_to_levels(const float* x, const float* w, float scale, const Levels& levels,
                      float* level);

// Returns the x of the largest magnitude, with its sign.
float extreme(const float* x, size_t n);

}  // namespace kvick::quantize
