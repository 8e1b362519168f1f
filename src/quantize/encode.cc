#include "quantize/encode.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "quantize/encode_grid.h"
#include "quantize/fit.h"

#include "base/check.h"
#include "kernels/formats/codebooks.h"
#include "kernels/formats/write_block.h"

namespace kvick::quantize {
namespace {

using kernels::BlockCodes;
using kernels::DType;

// Weights are clamped to this. It is larger than any float16 scale reaches, and its square is
// finite.
constexpr float kMost = 1e9F;

// Sets the factor of each weight's error in a block. Larger weights get larger factors: an error is
// less harmful in a weight that contributes less (measured: docs/results/quantize.md).
void weigh(std::span<const float> x, const float* importance, std::array<float, kSuper>& w) {
  float squares = 0;
  for (const float value : x) squares += value * value;
  const float mean = squares / static_cast<float>(x.size());
  // A column that no token uses still gets a small factor, to avoid divisions by zero.
  for (size_t i = 0; i < x.size(); ++i)
    w[i] = (importance != nullptr ? importance[i] + 1e-12F : 1.0F) *
           std::sqrt(mean + x[i] * x[i] + 1e-30F);
}

void put_codes(const float* code, size_t n, int added, int* out) {
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<int>(code[i]) + added;
}

// -- blocks of 32 ---------------------------------------------------------------------------------

// Q8_0 takes its scale from the extreme: at eight bits a search gains nothing.
void fill_q8_0(const float* x, const float* w, BlockCodes& block) {
  const float scale = put_half(std::fabs(extreme(x, kSmall)) / 127, block.d);
  float code[kSmall];
  round_to_scale<kSmall>(x, w, scale, -127, 127, code);
  put_codes(code, kSmall, 128, block.code.data());
}

void fill_scaled(const float* x, const float* w, int half, BlockCodes& block) {
  const float scale = put_half(fit_scale<kSmall>(x, w, -half, half - 1), block.d);
  float code[kSmall];
  round_to_scale<kSmall>(x, w, scale, -half, half - 1, code);
  put_codes(code, kSmall, half, block.code.data());
}

void fill_line(const float* x, const float* w, int top, BlockCodes& block) {
  Line line = fit_line<kSmall>(x, w, top, true);
  line = {.scale = put_half(line.scale, block.d), .min = put_half(line.min, block.m)};
  float code[kSmall];
  round_to_line<kSmall>(x, w, line, top, code);
  put_codes(code, kSmall, 0, block.code.data());
}

// -- levels ---------------------------------------------------------------------------------------

// A table of values in ascending order, with the code of each value.
struct SortedLevels {
  Levels levels{};
  std::array<int, 16> code{};
  explicit SortedLevels(const kernels::Codebook& book) {
    for (int i = 0; i < 16; ++i) code[static_cast<size_t>(i)] = i;
    const auto value = [&](int i) { return book.u[i] - book.zero; };
    std::stable_sort(code.begin(), code.end(), [&](int a, int b) { return value(a) < value(b); });
    for (size_t i = 0; i < 16; ++i) levels[i] = static_cast<float>(value(code[i]));
  }
  int code_of(float level) const {
    return code[static_cast<size_t>(std::lower_bound(levels.begin(), levels.end(), level) -
                                    levels.begin())];
  }
};
const SortedLevels& nonlinear_levels() {
  static const SortedLevels levels(kernels::kNonlinear4);
  return levels;
}
const SortedLevels& float_levels() {
  static const SortedLevels levels(kernels::kFloat4);
  return levels;
}

float put_levels(const float* x, const float* w, float scale, const SortedLevels& levels,
                 int* code) {
  float level[kSmall];
  const float error = round_to_levels<kSmall>(x, w, scale, levels.levels, level);
  for (size_t i = 0; i < kSmall; ++i) code[i] = levels.code_of(level[i]);
  return error;
}

void fill_iq4_nl(const float* x, const float* w, BlockCodes& block) {
  const float scale = put_half(fit_levels<kSmall>(x, w, nonlinear_levels().levels), block.d);
  put_levels(x, w, scale, nonlinear_levels(), block.code.data());
}

// Tries the exponent at which the extreme is just below the largest value, 6, and its neighbours.
void fill_mxfp4(const float* x, const float* w, BlockCodes& block) {
  const float most = std::fabs(extreme(x, kSmall));
  if (!(most > 0)) return;
  const int first = std::clamp(std::ilogb(most) - 2 + 127, 1, 253);
  float least = INFINITY;
  for (int exponent = first - 1; exponent <= first + 1; ++exponent) {
    std::array<int, kSmall> code{};
    // The levels are twice the values.
    const float error =
        put_levels(x, w, std::ldexp(1.0F, exponent - 128), float_levels(), code.data());
    if (error >= least) continue;
    least = error;
    block.scale[0] = exponent;
    std::copy(code.begin(), code.end(), block.code.begin());
  }
}

// -- superblocks ----------------------------------------------------------------------------------

// value = d * scale[g] * code, with N weights per group and scales in -field..field-1.
struct Symmetric {
  int half, field;
};
// Tries the scales next to each group's wanted one, and keeps the best with its codes.
template <size_t N>
void choose_scales(const float* x, const float* w, const Symmetric& form, float d,
                   const float* wanted, BlockCodes& block) {
  for (size_t g = 0; g < kSuper / N; ++g) {
    const float *gx = x + N * g, *gw = w + N * g;
    const int middle = nearest(divide(wanted[g], d), -form.field, form.field - 1);
    float least = INFINITY;
    for (int scale = std::max(middle - 1, -form.field);
         scale <= std::min(middle + 1, form.field - 1); ++scale) {
      float code[N];
      const float error =
          round_to_scale<N>(gx, gw, d * static_cast<float>(scale), -form.half, form.half - 1, code);
      if (error >= least) continue;
      least = error;
      block.scale[g] = scale;
      put_codes(code, N, form.half, block.code.data() + N * g);
    }
  }
}

// Returns the least-squares d for given group scales and codes.
template <size_t N>
float regress_scale(const float* x, const float* w, int half, const BlockCodes& block, float d) {
  float xq = 0, qq = 0;
  for (size_t i = 0; i < kSuper; ++i) {
    const auto q = static_cast<float>(block.scale[i / N] * (block.code[i] - half));
    xq += w[i] * x[i] * q;
    qq += w[i] * q * q;
  }
  return qq > 0 ? xq / qq : d;
}

template <size_t N>
void fill_symmetric(const float* x, const float* w, const Symmetric& form, BlockCodes& block) {
  std::array<float, kSuper / N> scales;
  for (size_t g = 0; g < scales.size(); ++g)
    scales[g] = fit_scale<N>(x + N * g, w + N * g, -form.half, form.half - 1);
  float d =
      put_half(-extreme(scales.data(), scales.size()) / static_cast<float>(form.field), block.d);
  choose_scales<N>(x, w, form, d, scales.data(), block);
  d = put_half(regress_scale<N>(x, w, form.half, block, d), block.d);
  choose_scales<N>(x, w, form, d, scales.data(), block);
}

// value = d * scale[g] * code - m * min[g], with N weights per group and scales and minima in
// 0..field.
struct Asymmetric {
  int top, field;
};
template <size_t N>
void choose_line(const float* x, const float* w, const Asymmetric& form, float d, float m,
                 Line wanted, int& scale, int& min, int* codes) {
  const int scale0 = nearest(divide(wanted.scale, d), 0, form.field);
  const int min0 = nearest(divide(-wanted.min, m), 0, form.field);
  float least = INFINITY;
  for (int s = std::max(scale0 - 1, 0); s <= std::min(scale0 + 1, form.field); ++s) {
    for (int k = std::max(min0 - 1, 0); k <= std::min(min0 + 1, form.field); ++k) {
      float code[N];
      const float error = round_to_line<N>(
          x, w, {.scale = d * static_cast<float>(s), .min = -m * static_cast<float>(k)}, form.top,
          code);
      if (error >= least) continue;
      least = error;
      scale = s, min = k;
      put_codes(code, N, 0, codes);
    }
  }
}

// Computes the least-squares d and m for given group scales, minima and codes.
template <size_t N>
void regress_both(const float* x, const float* w, const BlockCodes& block, float& d, float& m) {
  float aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
  for (size_t i = 0; i < kSuper; ++i) {
    const auto a = static_cast<float>(block.scale[i / N] * block.code[i]);
    const auto b = static_cast<float>(-block.min[i / N]);
    aa += w[i] * a * a;
    ab += w[i] * a * b;
    bb += w[i] * b * b;
    ax += w[i] * a * x[i];
    bx += w[i] * b * x[i];
  }
  const float determinant = aa * bb - ab * ab;
  if (!(determinant > 1e-6F * aa * bb)) {
    if (aa > 0) d = std::max(0.0F, (ax - ab * m) / aa);
    return;
  }
  const float new_d = (bb * ax - ab * bx) / determinant, new_m = (aa * bx - ab * ax) / determinant;
  if (new_d > 0 && new_m >= 0) d = new_d, m = new_m;
}

template <size_t N>
void fill_asymmetric(const float* x, const float* w, const Asymmetric& form, BlockCodes& block) {
  constexpr size_t kGroups = kSuper / N;
  std::array<Line, kGroups> lines;
  float d = 0, m = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    lines[g] = fit_line<N>(x + N * g, w + N * g, form.top, false);
    d = std::max(d, lines[g].scale);
    m = std::max(m, -lines[g].min);
  }
  d = put_half(d / static_cast<float>(form.field), block.d);
  m = put_half(m / static_cast<float>(form.field), block.m);
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) {
      regress_both<N>(x, w, block, d, m);
      d = put_half(d, block.d), m = put_half(m, block.m);
    }
    for (size_t g = 0; g < kGroups; ++g)
      choose_line<N>(x + N * g, w + N * g, form, d, m, lines[g], block.scale[g], block.min[g],
                     block.code.data() + N * g);
  }
}

// value = d * scale[g] * level, with 32 weights per group and scales in -32..31.
void fill_iq4_xs(const float* x, const float* w, BlockCodes& block) {
  const SortedLevels& levels = nonlinear_levels();
  std::array<float, 8> scales;
  for (size_t g = 0; g < 8; ++g)
    scales[g] = fit_levels<kSmall>(x + kSmall * g, w + kSmall * g, levels.levels);
  const float d = put_half(-extreme(scales.data(), 8) / 32, block.d);
  for (size_t g = 0; g < 8; ++g) {
    const int middle = nearest(divide(scales[g], d), -32, 31);
    float least = INFINITY;
    for (int scale = std::max(middle - 1, -32); scale <= std::min(middle + 1, 31); ++scale) {
      std::array<int, kSmall> code{};
      const float error = put_levels(x + kSmall * g, w + kSmall * g, d * static_cast<float>(scale),
                                     levels, code.data());
      if (error >= least) continue;
      least = error;
      block.scale[g] = scale;
      std::copy(code.begin(), code.end(), block.code.begin() + static_cast<ptrdiff_t>(kSmall * g));
    }
  }
}

void fill(DType type, const float* x, const float* w, BlockCodes& block) {
  switch (type) {
    case DType::kQ8_0:
      return fill_q8_0(x, w, block);
    case DType::kQ4_0:
      return fill_scaled(x, w, 8, block);
    case DType::kQ5_0:
      return fill_scaled(x, w, 16, block);
    case DType::kQ4_1:
      return fill_line(x, w, 15, block);
    case DType::kQ5_1:
      return fill_line(x, w, 31, block);
    case DType::kQ2_K:
      return fill_asymmetric<16>(x, w, {.top = 3, .field = 15}, block);
    case DType::kQ3_K:
      return fill_symmetric<16>(x, w, {.half = 4, .field = 32}, block);
    case DType::kQ4_K:
      return fill_asymmetric<32>(x, w, {.top = 15, .field = 63}, block);
    case DType::kQ5_K:
      return fill_asymmetric<32>(x, w, {.top = 31, .field = 63}, block);
    case DType::kQ6_K:
      return fill_symmetric<16>(x, w, {.half = 32, .field = 128}, block);
    case DType::kIQ4_NL:
      return fill_iq4_nl(x, w, block);
    case DType::kIQ4_XS:
      return fill_iq4_xs(x, w, block);
    case DType::kMXFP4:
      return fill_mxfp4(x, w, block);
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return fill_ternary(x, w, block);
    default:
      return fill_grid(type, x, w, block);
  }
}

}  // namespace

bool can_encode(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 ||
         kernels::has_block_writer(type);
}

void encode(DType type, std::span<const float> values, std::span<const float> importance,
            std::byte* out) {
  const kernels::DTypeInfo& info = kernels::dtype_info(type);
  KVICK_CHECK_EQ(values.size() % info.block, 0u);
  if (info.block == 1) return kernels::from_f32(type, values.data(), values.size(), out);
  std::array<float, kSuper> x, w;
  for (size_t at = 0; at < values.size(); at += info.block, out += info.block_bytes) {
    for (size_t i = 0; i < info.block; ++i) x[i] = std::clamp(values[at + i], -kMost, kMost);
    weigh(std::span(x).first(info.block), importance.empty() ? nullptr : importance.data() + at, w);
    BlockCodes block;
    fill(type, x.data(), w.data(), block);
    kernels::write_block(type, block, out);
  }
}

}  // namespace kvick::quantize
