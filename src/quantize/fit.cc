#include "quantize/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvick::quantize {
namespace {

// A group with smaller weights than this becomes zeros: the inverse of its scale would overflow.
constexpr float kTiny = 1e-30F;

// Rounds to the nearest integer, for |x| below 2^22. Compilers vectorise these two additions.
inline float rounded(float x) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23
  return (x + kShift) - kShift;
}
inline float cut(float x, float low, float high) { return std::min(std::max(x, low), high); }

struct Sums {
  float xq = 0, qq = 0;  // of w * x * q and w * q * q
  float scale() const { return qq > 0 ? xq / qq : 0; }
  // The reduction of the error by the best scale for these codes.
  float gain() const { return qq > 0 ? xq * xq / qq : 0; }
};

// Tries steps of a tenth of a code around the scale at which the extreme gets the last code.
constexpr int kSteps = 9;
constexpr float kStep = 0.1F;

}  // namespace

float extreme(const float* x, size_t n) {
  float best = 0;
  for (size_t i = 0; i < n; ++i)
    if (std::fabs(x[i]) > std::fabs(best)) best = x[i];
  return best;
}

template <size_t N>
float round_to_scale(const float* x, const float* w, float scale, int low, int high, float* code) {
  const float inverse = std::fabs(scale) > kTiny ? 1 / scale : 0;
  const auto least = static_cast<float>(low), most = static_cast<float>(high);
  float error = 0;
  for (size_t i = 0; i < N; ++i) {
    code[i] = rounded(cut(x[i] * inverse, least, most));
    const float off = x[i] - scale * code[i];
    error += w[i] * off * off;
  }
  return error;
}

template <size_t N>
float fit_scale(const float* x, const float* w, int low, int high) {
  const float most = extreme(x, N);
  if (std::fabs(most) < kTiny) return 0;
  const auto least_code = static_cast<float>(low), most_code = static_cast<float>(high);
  Sums best;
  // The extreme may get the lowest code, whose magnitude is larger, or with the other sign the
  // highest.
  for (const float end : {least_code, most_code}) {
    for (int step = -kSteps; step <= kSteps; ++step) {
      const float inverse = (end + kStep * static_cast<float>(step)) / most;
      Sums sums;
      for (size_t i = 0; i < N; ++i) {
        const float code = rounded(cut(x[i] * inverse, least_code, most_code));
        sums.xq += w[i] * x[i] * code;
        sums.qq += w[i] * code * code;
      }
      if (sums.gain() > best.gain()) best = sums;
    }
  }
  return best.scale();
}

template <size_t N>
float round_to_line(const float* x, const float* w, Line line, int top, float* code) {
  const float inverse = line.scale > kTiny ? 1 / line.scale : 0;
  const auto most = static_cast<float>(top);
  float error = 0;
  for (size_t i = 0; i < N; ++i) {
    code[i] = rounded(cut((x[i] - line.min) * inverse, 0, most));
    const float off = x[i] - (line.scale * code[i] + line.min);
    error += w[i] * off * off;
  }
  return error;
}

namespace {

// Returns the line for given codes, by linear regression.
template <size_t N>
Line regress(const float* x, const float* w, const float* code, bool free_min) {
  float s1 = 0, sx = 0, sq = 0, sqq = 0, sqx = 0;
  for (size_t i = 0; i < N; ++i) {
    const float wq = w[i] * code[i];
    s1 += w[i];
    sx += w[i] * x[i];
    sq += wq;
    sqq += wq * code[i];
    sqx += wq * x[i];
  }
  const float determinant = s1 * sqq - sq * sq;
  if (!(determinant > 0)) return {};
  Line line = {.scale = (s1 * sqx - sx * sq) / determinant,
               .min = (sqq * sx - sq * sqx) / determinant};
  if (line.min > 0 && !free_min) line = {.scale = sqx / sqq, .min = 0};
  return line;
}

}  // namespace

template <size_t N>
Line fit_line(const float* x, const float* w, int top, bool free_min) {
  float low = *std::min_element(x, x + N);
  const float high = *std::max_element(x, x + N);
  if (!free_min) low = std::min(low, 0.0F);
  if (high - low < kTiny) return {.scale = 0, .min = low};
  float code[N];
  Line best = {.scale = (high - low) / static_cast<float>(top), .min = low};
  float least = round_to_line<N>(x, w, best, top, code);
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float steps = static_cast<float>(top) + kStep * static_cast<float>(step);
    round_to_line<N>(x, w, {.scale = (high - low) / steps, .min = low}, top, code);
    const Line line = regress<N>(x, w, code, free_min);
    if (!(line.scale > 0)) continue;
    // The line's own nearest codes reduce the error further.
    const float error = round_to_line<N>(x, w, line, top, code);
    if (error < least) least = error, best = line;
  }
  return best;
}

template <size_t N>
float round_to_levels(const float* x, const float* w, float scale, const Levels& levels,
                      float* level) {
  const float inverse = std::fabs(scale) > kTiny ? 1 / scale : 0;
  float error = 0;
  for (size_t i = 0; i < N; ++i) {
    const float y = x[i] * inverse;
    float nearest = levels[0];
    for (size_t k = 1; k < levels.size(); ++k)
      nearest = y > (levels[k - 1] + levels[k]) / 2 ? levels[k] : nearest;
    level[i] = nearest;
    const float off = x[i] - scale * nearest;
    error += w[i] * off * off;
  }
  return error;
}

template <size_t N>
float fit_levels(const float* x, const float* w, const Levels& levels) {
  const float most = extreme(x, N);
  if (std::fabs(most) < kTiny) return 0;
  Sums best;
  float level[N];
  for (const float end : {levels.front(), levels.back()}) {
    for (int step = -kSteps; step <= kSteps; ++step) {
      // Steps of 1 % of the widest level.
      const float scale = most / (end * (1 + 0.01F * static_cast<float>(step)));
      round_to_levels<N>(x, w, scale, levels, level);
      Sums sums;
      for (size_t i = 0; i < N; ++i) {
        sums.xq += w[i] * x[i] * level[i];
        sums.qq += w[i] * level[i] * level[i];
      }
      if (sums.gain() > best.gain()) best = sums;
    }
  }
  return best.scale();
}

template float fit_scale<16>(const float*, const float*, int, int);
template Line fit_line<16>(const float*, const float*, int, bool);
template float round_to_scale<16>(const float*, const float*, float, int, int, float*);
template float round_to_line<16>(const float*, const float*, Line, int, float*);
template float fit_levels<16>(const float*, const float*, const Levels&);
template float round_to_levels<16>(const float*, const float*, float, const Levels&, float*);
template float fit_scale<32>(const float*, const float*, int, int);
template Line fit_line<32>(const float*, const float*, int, bool);
template float round_to_scale<32>(const float*, const float*, float, int, int, float*);
template float round_to_line<32>(const float*, const float*, Line, int, float*);
template float fit_levels<32>(const float*, const float*, const Levels&);
template float round_to_levels<32>(const float*, const float*, float, const Levels&, float*);

}  // namespace kvick::quantize
