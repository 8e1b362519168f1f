#pragma once
// The scales and codes of a group of weights that leave the smallest weighted squared error
// sum of w[i] * (x[i] - value[i])^2. Each fit tries scales near the one that the extremes suggest,
// solves for the best one with the codes that it gives (linear least squares), and keeps the best.

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

// N: weights of a group, 16 or 32. All have finite x and w above 0.

// value = scale * code, codes in low..high.
template <size_t N>
float fit_scale(const float* x, const float* w, int low, int high);

// value = scale * code + min, codes in 0..top, scale not negative; min is not positive unless free.
struct Line {
  float scale = 0, min = 0;
};
template <size_t N>
Line fit_line(const float* x, const float* w, int top, bool free_min);

// Codes nearest to x for given numbers, and their weighted squared error.
template <size_t N>
float round_to_scale(const float* x, const float* w, float scale, int low, int high, float* code);
template <size_t N>
float round_to_line(const float* x, const float* w, Line line, int top, float* code);

// The sixteen values that codes stand for, ascending.
using Levels = std::array<float, 16>;
// value = scale * levels[code].
template <size_t N>
float fit_levels(const float* x, const float* w, const Levels& levels);
template <size_t N>
float round_to_levels(const float* x, const float* w, float scale, const Levels& levels,
                      float* level);

// The x of the largest magnitude, with its sign.
float extreme(const float* x, size_t n);

}  // namespace kvick::quantize
