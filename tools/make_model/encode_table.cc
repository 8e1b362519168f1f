#include "make_model/encode_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "base/check.h"
#include "kernels/formats/codebooks.h"
#include "kernels/formats/grids.h"

namespace kvick::tools {
namespace {

using kernels::Codebook;
using kernels::DType;

constexpr int kSuper = 256;

float inverse(float x) { return x != 0 ? 1.0F / x : 0.0F; }
void put_u16(uint32_t value, uint8_t* at) {
  at[0] = static_cast<uint8_t>(value);
  at[1] = static_cast<uint8_t>(value >> 8);
}
void put_u32(uint32_t value, uint8_t* at) {
  put_u16(value, at);
  put_u16(value >> 16, at + 2);
}
// Writes a float16 and returns the value that a reader will see.
float put_half(float value, uint8_t* at) {
  const uint16_t half = kernels::f32_to_f16(value);
  put_u16(half, at);
  return kernels::f16_to_f32(half);
}

float extreme(const float* x, int n) {
  return *std::max_element(x, x + n, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

int value_of(const Codebook& codebook, size_t code) { return codebook.u[code] - codebook.zero; }

// Returns the code whose value is nearest to y.
uint8_t nearest_code(const Codebook& codebook, float y) {
  size_t best = 0;
  for (size_t i = 1; i < 16; ++i)
    if (std::fabs(static_cast<float>(value_of(codebook, i)) - y) <
        std::fabs(static_cast<float>(value_of(codebook, best)) - y))
      best = i;
  return static_cast<uint8_t>(best);
}

// Writes n codes: the first half in low nibbles, the second half in high nibbles.
void put_codes(const Codebook& codebook, const float* x, int n, float scale, uint8_t* out) {
  const float inv = inverse(scale);
  for (int i = 0; i < n / 2; ++i)
    out[i] = static_cast<uint8_t>(nearest_code(codebook, x[i] * inv) |
                                  nearest_code(codebook, x[i + n / 2] * inv) << 4);
}

void block_iq4_nl(const float* x, uint8_t* out) {
  put_codes(kernels::kNonlinear4, x, 32, put_half(extreme(x, 32) / -127.0F, out), out + 2);
}

// Layout: [d][high bit pairs of 8 scales + 32][their low nibbles][128 bytes of codes].
void block_iq4_xs(const float* x, uint8_t* out) {
  std::array<float, 8> scales{};
  for (int g = 0; g < 8; ++g) scales[g] = extreme(x + 32 * g, 32) / -127.0F;
  const float d = put_half(extreme(scales.data(), 8) / -32.0F, out);
  uint32_t high = 0, low = 0;
  for (int g = 0; g < 8; ++g) {
    const int scale = std::clamp(static_cast<int>(std::nearbyint(scales[g] * inverse(d))), -32, 31);
    high |= static_cast<uint32_t>(scale + 32) >> 4 << 2 * g;
    low |= static_cast<uint32_t>((scale + 32) & 15) << 4 * g;
    put_codes(kernels::kNonlinear4, x + 32 * g, 32, d * static_cast<float>(scale),
              out + 8 + 16 * g);
  }
  put_u16(high, out + 2);
  put_u32(low, out + 4);
}

// Layout: [exponent][16 bytes of codes]. The largest value of the table, 6, is 1.5 times a power of
// two.
void block_mxfp4(const float* x, uint8_t* out) {
  const float most = std::fabs(extreme(x, 32));
  const int exponent = most > 0 ? std::clamp(std::ilogb(most) - 2 + 127, 0, 254) : 0;
  out[0] = static_cast<uint8_t>(exponent);
  const float scale = most > 0 ? std::ldexp(1.0F, exponent - 128) : 0.0F;
  put_codes(kernels::kFloat4, x, 32, scale, out + 1);
}

float e4m3(int bits) { return kernels::f16_to_f32(static_cast<uint16_t>(bits << 7)) * 256; }

// Layout: [4 scales][32 bytes of codes].
void block_nvfp4(const float* x, uint8_t* out) {
  for (int g = 0; g < 4; ++g) {
    const float wanted = std::fabs(extreme(x + 16 * g, 16)) / 6;
    int best = 0;
    for (int i = 1; i < 0x7f; ++i)
      if (std::fabs(e4m3(i) - wanted) < std::fabs(e4m3(best) - wanted)) best = i;
    out[g] = static_cast<uint8_t>(best);
    put_codes(kernels::kFloat4, x + 16 * g, 16, e4m3(best) / 2, out + 4 + 8 * g);
  }
}

// -- grids ----------------------------------------------------------------------------------------

// The scales of a block. Each `group` of weights has the scale d * (2 * odd + 1), where odd has
// `bits` bits.
struct GridScales {
  std::array<float, 16> scale{};   // per 16 weights: the factor of the table's values
  std::array<uint32_t, 16> odd{};  // (scale / d - 1) / 2
};
// Writes d and returns the scales. `most`: the value that the largest weight of a group is scaled
// to. d is `unit` times the float16 in the block.
GridScales put_scales(const float* x, int group, int bits, float most, float unit, uint8_t* d_at) {
  GridScales s;
  const int top = (1 << bits) - 1;
  for (int h = 0; h < 16; ++h)
    s.scale[h] = std::fabs(extreme(x + h * 16 / group * group, group)) / most;
  const float largest = *std::max_element(s.scale.begin(), s.scale.end());
  const float d = put_half(largest / unit / static_cast<float>(2 * top + 1), d_at) * unit;
  for (int h = 0; h < 16; ++h) {
    const float steps = (s.scale[h] * inverse(d) - 1) / 2;
    s.odd[h] =
        static_cast<uint32_t>(std::clamp(std::nearbyint(steps), 0.0F, static_cast<float>(top)));
    s.scale[h] = d * static_cast<float>(2 * s.odd[h] + 1);
  }
  return s;
}

struct Point {
  uint32_t index = 0;
  float error = std::numeric_limits<float>::infinity();
};

// Returns the point of a grid nearest to y. Points have 8 codes (`bits` 2) or 4 (`bits` 3); `sign`
// is added to the codes.
Point nearest_point(std::span<const uint16_t> grid, uint32_t bits, const Codebook& codebook,
                    uint32_t sign, const float* y) {
  std::array<float, 8> values{};
  for (uint32_t i = 0; i < 1U << bits; ++i)
    values[i] = static_cast<float>(value_of(codebook, i | sign));
  const uint32_t n = bits == 2 ? 8 : 4, mask = (1U << bits) - 1;
  Point best;
  for (uint32_t index = 0; index < grid.size(); ++index) {
    float error = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const float off = values[grid[index] >> bits * i & mask] - y[i];
      error += off * off;
    }
    if (error < best.error) best = {index, error};
  }
  return best;
}

// Eight weights as magnitudes in units of a scale, and their signs.
struct Eight {
  std::array<float, 8> y{};
  uint32_t signs = 0;
};
// `even`: the number of negative signs must be even; if it is odd, the smallest weight changes its
// sign.
Eight eight_of(const float* x, float scale, bool even) {
  Eight out;
  const float inv = inverse(scale);
  size_t least = 0;
  for (size_t i = 0; i < 8; ++i) {
    out.y[i] = std::fabs(x[i]) * inv;
    out.signs |= (x[i] < 0 ? 1U : 0U) << i;
    if (out.y[i] < out.y[least]) least = i;
  }
  if (even && std::popcount(out.signs) % 2 != 0) {
    out.signs ^= 1U << least;
    out.y[least] = -out.y[least];
  }
  return out;
}

// The values that the largest weight of a group is scaled to. The grids of IQ1 and IQ2 end below,
// at 9 and 43, so that weight is clipped: most weights are much smaller.
constexpr float kMost3 = 15, kMost3Xxs = 31, kMost2 = 50, kMost1 = 16;

void block_iq3_s(const float* x, uint8_t* out) {
  const GridScales s = put_scales(x, 32, 4, kMost3, 1, out);
  for (uint32_t i = 0; i < 64; ++i) {
    const Eight eight = eight_of(x + i / 2 * 8, s.scale[i / 4], false);
    const uint32_t at =
        nearest_point(kernels::kIq3SGrid, 3, kernels::kOdd4, 0, eight.y.data() + i % 2 * 4).index;
    out[2 + i] = static_cast<uint8_t>(at);
    out[66 + i / 8] |= static_cast<uint8_t>(at >> 8 << i % 8);
    out[74 + i / 2] = static_cast<uint8_t>(eight.signs);
  }
  for (uint32_t g = 0; g < 8; ++g)
    out[106 + g / 2] |= static_cast<uint8_t>(s.odd[2 * g] << 4 * (g % 2));
}

void block_iq3_xxs(const float* x, uint8_t* out) {
  const GridScales s = put_scales(x, 32, 4, kMost3Xxs, 0.5F, out);
  for (uint32_t g = 0; g < 8; ++g) {
    uint32_t more = s.odd[2 * g] << 28;
    for (uint32_t l = 0; l < 4; ++l) {
      const Eight eight = eight_of(x + 32 * g + 8 * l, s.scale[2 * g], true);
      more |= (eight.signs & 127) << 7 * l;
      for (uint32_t k = 0; k < 2; ++k)
        out[2 + 8 * g + 2 * l + k] = static_cast<uint8_t>(
            nearest_point(kernels::kIq3XxsGrid, 3, kernels::kGrid4, 0, eight.y.data() + 4 * k)
                .index);
    }
    put_u32(more, out + 66 + 4 * g);
  }
}

void block_iq2_s(const float* x, uint8_t* out) {
  const GridScales s = put_scales(x, 16, 4, kMost2, 0.125F, out);
  for (uint32_t i = 0; i < 32; ++i) {
    const Eight eight = eight_of(x + 8 * i, s.scale[i / 2], false);
    const uint32_t at =
        nearest_point(kernels::kIq2SGrid, 2, kernels::kGrid3, 0, eight.y.data()).index;
    out[2 + i] = static_cast<uint8_t>(at);
    out[34 + i] = static_cast<uint8_t>(eight.signs);
    out[66 + i / 4] |= static_cast<uint8_t>(at >> 8 << i % 4 * 2);
  }
  for (uint32_t h = 0; h < 16; ++h)
    out[74 + h / 2] |= static_cast<uint8_t>(s.odd[h] << 4 * (h % 2));
}

void block_iq2_xs(const float* x, uint8_t* out) {
  const GridScales s = put_scales(x, 16, 4, kMost2, 0.125F, out);
  for (uint32_t i = 0; i < 32; ++i) {
    const Eight eight = eight_of(x + 8 * i, s.scale[i / 2], true);
    const uint32_t at =
        nearest_point(kernels::kIq2XsGrid, 2, kernels::kGrid3, 0, eight.y.data()).index;
    put_u16(at | (eight.signs & 127) << 9, out + 2 + 2 * i);
  }
  for (uint32_t h = 0; h < 16; ++h)
    out[66 + h / 2] |= static_cast<uint8_t>(s.odd[h] << 4 * (h % 2));
}

void block_iq2_xxs(const float* x, uint8_t* out) {
  const GridScales s = put_scales(x, 32, 4, kMost2, 0.125F, out);
  for (uint32_t g = 0; g < 8; ++g) {
    uint32_t more = s.odd[2 * g] << 28;
    for (uint32_t l = 0; l < 4; ++l) {
      const Eight eight = eight_of(x + 32 * g + 8 * l, s.scale[2 * g], true);
      more |= (eight.signs & 127) << 7 * l;
      out[2 + 8 * g + l] = static_cast<uint8_t>(
          nearest_point(kernels::kIq2XxsGrid, 2, kernels::kGrid3, 0, eight.y.data()).index);
    }
    put_u32(more, out + 6 + 8 * g);
  }
}

// Grid points of up to four groups of 8 weights, which share the sign of the offset added to them.
struct Ternary {
  std::array<uint32_t, 4> index{};
  bool negative = false;
};
Ternary ternary_of(const float* x, uint32_t count, float scale) {
  std::array<Ternary, 2> both;
  std::array<float, 2> error{};
  std::array<float, 32> y{};
  const float inv = inverse(scale);
  for (uint32_t i = 0; i < 8 * count; ++i) y[i] = x[i] * inv;
  for (uint32_t k = 0; k < 2; ++k) {
    both[k].negative = k == 1;
    for (uint32_t l = 0; l < count; ++l) {
      const Point point =
          nearest_point(kernels::kIq1Grid, 2, kernels::kTernary3, 4 * k, y.data() + 8 * l);
      both[k].index[l] = point.index;
      error[k] += point.error;
    }
  }
  return both[error[1] < error[0] ? 1 : 0];
}

void block_iq1_s(const float* x, uint8_t* out) {
  const GridScales s = put_scales(x, 32, 3, kMost1, 0.125F, out);
  for (uint32_t g = 0; g < 8; ++g) {
    const Ternary ternary = ternary_of(x + 32 * g, 4, s.scale[2 * g]);
    uint32_t high = s.odd[2 * g] << 12 | (ternary.negative ? 0x8000U : 0);
    for (uint32_t l = 0; l < 4; ++l) {
      out[2 + 4 * g + l] = static_cast<uint8_t>(ternary.index[l]);
      high |= ternary.index[l] >> 8 << 3 * l;
    }
    put_u16(high, out + 34 + 2 * g);
  }
}

void block_iq1_m(const float* x, uint8_t* out) {
  uint8_t d[2];
  const GridScales s = put_scales(x, 16, 3, kMost1, 0.125F, d);
  for (uint32_t i = 0; i < 32; ++i) {
    const Ternary ternary = ternary_of(x + 8 * i, 1, s.scale[i / 2]);
    out[i] = static_cast<uint8_t>(ternary.index[0]);
    const uint32_t high = ternary.index[0] >> 8 | (ternary.negative ? 8U : 0);
    out[32 + i / 2] |= static_cast<uint8_t>(high << 4 * (i % 2));
  }
  for (uint32_t k = 0; k < 4; ++k) {
    uint32_t scales = (static_cast<uint32_t>(d[k / 2]) >> 4 * (k % 2) & 15) << 12;
    for (uint32_t h = 0; h < 4; ++h) scales |= s.odd[4 * k + h] << 3 * h;
    put_u16(scales, out + 48 + 2 * k);
  }
}

// Returns codes 0, 1 and 2 for -d, 0 and d.
std::array<uint8_t, kSuper> ternary_codes(const float* x, uint8_t* d_at) {
  std::array<uint8_t, kSuper> codes{};
  const float inv = inverse(put_half(std::fabs(extreme(x, kSuper)) / 2, d_at));
  for (int i = 0; i < kSuper; ++i)
    codes[i] = static_cast<uint8_t>(std::clamp(std::nearbyint(x[i] * inv), -1.0F, 1.0F) + 1);
  return codes;
}

void block_tq1_0(const float* x, uint8_t* out) {
  const auto codes = ternary_codes(x, out + 52);
  // Packs n (up to five) base-3 digits, from `first` on and `step` apart, as a fraction of 256 that
  // is rounded up.
  const auto digits = [&](size_t first, size_t step, size_t n) {
    uint32_t number = 0;
    for (size_t k = 0; k < 5; ++k) number = 3 * number + (k < n ? codes[first + k * step] : 0);
    return static_cast<uint8_t>((number * 256 + 242) / 243);
  };
  for (size_t i = 0; i < 32; ++i) out[i] = digits(i, 32, 5);
  for (size_t i = 0; i < 16; ++i) out[32 + i] = digits(160 + i, 16, 5);
  for (size_t i = 0; i < 4; ++i) out[48 + i] = digits(240 + i, 4, 4);
}

void block_tq2_0(const float* x, uint8_t* out) {
  const auto codes = ternary_codes(x, out + 64);
  for (size_t i = 0; i < kSuper; ++i)
    out[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(codes[i] << i % 128 / 32 * 2);
}

}  // namespace

void encode_table_block(DType type, const float* x, uint8_t* out) {
  std::memset(out, 0, kernels::dtype_info(type).block_bytes);
  switch (type) {
    case DType::kIQ4_NL:
      return block_iq4_nl(x, out);
    case DType::kIQ4_XS:
      return block_iq4_xs(x, out);
    case DType::kMXFP4:
      return block_mxfp4(x, out);
    case DType::kNVFP4:
      return block_nvfp4(x, out);
    case DType::kIQ3_S:
      return block_iq3_s(x, out);
    case DType::kIQ3_XXS:
      return block_iq3_xxs(x, out);
    case DType::kIQ2_S:
      return block_iq2_s(x, out);
    case DType::kIQ2_XS:
      return block_iq2_xs(x, out);
    case DType::kIQ2_XXS:
      return block_iq2_xxs(x, out);
    case DType::kIQ1_S:
      return block_iq1_s(x, out);
    case DType::kIQ1_M:
      return block_iq1_m(x, out);
    case DType::kTQ1_0:
      return block_tq1_0(x, out);
    case DType::kTQ2_0:
      return block_tq2_0(x, out);
    default:
      KVICK_CHECK(false, "{} has no table", kernels::dtype_info(type).name);
  }
}

}  // namespace kvick::tools
