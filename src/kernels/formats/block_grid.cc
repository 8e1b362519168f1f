// Reads the blocks of IQ1 to IQ3 and of ternary weights. IQ1 to IQ3 store 4 or 8 weights as the
// index of a grid point, and their signs separately: as 8 bits, or as 7 bits and an eighth that is
// their parity.

#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/formats/block.h"
#include "kernels/formats/grids.h"

namespace kvick::kernels {
namespace {

uint16_t u16_at(const uint8_t* in) { return static_cast<uint16_t>(in[0] | in[1] << 8); }
uint32_t u32_at(const uint8_t* in) {
  return u16_at(in) | static_cast<uint32_t>(u16_at(in + 2)) << 16;
}

// Returns 8 signs. The last is the parity of the others.
uint32_t even_signs(uint32_t seven) {
  return seven | (static_cast<uint32_t>(std::popcount(seven)) & 1U) << 7;
}

// Writes the codes of 8 weights: two bits of the point, then the sign.
void put_eight(uint32_t point, uint32_t signs, uint8_t* code) {
  for (int i = 0; i < 8; ++i)
    code[i] = static_cast<uint8_t>((point >> 2 * i & 3) | (signs >> i & 1) << 2);
}
// Does the same for two points of 4 weights, with three bits per weight.
void put_fours(uint32_t first, uint32_t second, uint32_t signs, uint8_t* code) {
  for (int i = 0; i < 4; ++i) {
    code[i] = static_cast<uint8_t>((first >> 3 * i & 7) | (signs >> i & 1) << 3);
    code[4 + i] = static_cast<uint8_t>((second >> 3 * i & 7) | (signs >> (4 + i) & 1) << 3);
  }
}

void set_scales(uint16_t d, uint32_t first, uint32_t second, BlockGroup& out) {
  out.d = d;
  out.m = 0;
  out.scale[0] = static_cast<int8_t>(2 * first + 1);
  out.scale[1] = static_cast<int8_t>(2 * second + 1);
  out.min[0] = out.min[1] = 0;
}

// d | qs[64]: low 8 bits of points | qh[8]: their ninth bits | signs[32] | scales[4] of 4 bits
void read_iq3_s(const uint8_t* in, uint32_t g, BlockGroup& out) {
  const uint32_t scale = in[106 + g / 2] >> 4 * (g % 2) & 15U, high = in[66 + g];
  set_scales(u16_at(in), scale, scale, out);
  for (uint32_t l = 0; l < 4; ++l) {
    const uint8_t* qs = in + 2 + 8 * g + 2 * l;
    put_fours(kIq3SGrid[qs[0] | (high >> 2 * l & 1) << 8],
              kIq3SGrid[qs[1] | (high >> (2 * l + 1) & 1) << 8], in[74 + 4 * g + l],
              out.code + 8 * l);
  }
}

// d | qs[64]: points | u32 [8]: 4 times 7 signs, a scale of 4 bits
void read_iq3_xxs(const uint8_t* in, uint32_t g, BlockGroup& out) {
  const uint32_t more = u32_at(in + 66 + 4 * g);
  set_scales(u16_at(in), more >> 28, more >> 28, out);
  for (uint32_t l = 0; l < 4; ++l) {
    const uint8_t* qs = in + 2 + 8 * g + 2 * l;
    put_fours(kIq3XxsGrid[qs[0]], kIq3XxsGrid[qs[1]], even_signs(more >> 7 * l & 127),
              out.code + 8 * l);
  }
}

// d | qs[32]: low 8 bits of points | signs[32] | qh[8]: their high pairs | scales[8] of 4 bits
void read_iq2_s(const uint8_t* in, uint32_t g, BlockGroup& out) {
  set_scales(u16_at(in), in[74 + g] & 15U, in[74 + g] >> 4, out);
  for (uint32_t l = 0; l < 4; ++l) {
    const uint32_t point = in[2 + 4 * g + l] | (in[66 + g] >> 2 * l & 3U) << 8;
    put_eight(kIq2SGrid[point], in[34 + 4 * g + l], out.code + 8 * l);
  }
}

// d | u16 [32]: a point of 9 bits, 7 signs | scales[8] of 4 bits
void read_iq2_xs(const uint8_t* in, uint32_t g, BlockGroup& out) {
  set_scales(u16_at(in), in[66 + g] & 15U, in[66 + g] >> 4, out);
  for (uint32_t l = 0; l < 4; ++l) {
    const uint32_t q = u16_at(in + 2 + 8 * g + 2 * l);
    put_eight(kIq2XsGrid[q & 511], even_signs(q >> 9), out.code + 8 * l);
  }
}

// d | [8]: 4 points of 8 bits, then u32: 4 times 7 signs, a scale of 4 bits
void read_iq2_xxs(const uint8_t* in, uint32_t g, BlockGroup& out) {
  const uint8_t* points = in + 2 + 8 * g;
  const uint32_t more = u32_at(points + 4);
  set_scales(u16_at(in), more >> 28, more >> 28, out);
  for (uint32_t l = 0; l < 4; ++l)
    put_eight(kIq2XxsGrid[points[l]], even_signs(more >> 7 * l & 127), out.code + 8 * l);
}

// Returns the sign bits of 8 codes. In IQ1 these are the sign of the offset that is added to all 8
// weights.
constexpr uint32_t all_or_none(bool negative) { return negative ? 255 : 0; }

// d | qs[32]: low 8 bits of points | u16 [8]: 4 times their high 3 bits, a scale of 3 bits, the
// sign of the offset
void read_iq1_s(const uint8_t* in, uint32_t g, BlockGroup& out) {
  const uint32_t high = u16_at(in + 34 + 2 * g);
  set_scales(u16_at(in), high >> 12 & 7, high >> 12 & 7, out);
  for (uint32_t l = 0; l < 4; ++l)
    put_eight(kIq1Grid[in[2 + 4 * g + l] | (high >> 3 * l & 7) << 8], all_or_none(high >> 15 != 0),
              out.code + 8 * l);
}

// qs[32]: low 8 bits of points | qh[16]: their high 3 bits and the sign of the offset | u16 [4]: 4
// scales of 3 bits, and 4 bits of d
void read_iq1_m(const uint8_t* in, uint32_t g, BlockGroup& out) {
  uint32_t d = 0;
  for (uint32_t i = 0; i < 4; ++i) d |= static_cast<uint32_t>(in[49 + 2 * i] >> 4) << 4 * i;
  const uint32_t scales = u16_at(in + 48 + g / 2 * 2) >> 6 * (g % 2);
  set_scales(static_cast<uint16_t>(d), scales & 7, scales >> 3 & 7, out);
  for (uint32_t l = 0; l < 4; ++l) {
    const uint32_t high = in[32 + 2 * g + l / 2] >> 4 * (l % 2);
    put_eight(kIq1Grid[in[4 * g + l] | (high & 7) << 8], all_or_none((high & 8) != 0),
              out.code + 8 * l);
  }
}

// Returns digit n of five digits in base 3, which a byte stores as a fraction of 256.
uint8_t digit(uint8_t five, uint32_t n) {
  constexpr uint8_t kPower[5] = {1, 3, 9, 27, 81};
  const auto fraction = static_cast<uint8_t>(five * kPower[n]);
  return static_cast<uint8_t>(fraction * 3 >> 8);
}

// qs[32]: byte i is five digits, of weights 32 * n + i | qs[16]: the same for the next 80 weights,
// 16 * n + i | qh[4]: four digits per byte, of the last 16 | d
void read_tq1_0(const uint8_t* in, uint32_t g, BlockGroup& out) {
  set_scales(u16_at(in + 52), 0, 0, out);
  for (uint32_t k = 0; k < 32; ++k) {
    const uint32_t i = 32 * g + k;
    out.code[k] = i < 160   ? digit(in[i % 32], i / 32)
                  : i < 240 ? digit(in[32 + i % 16], (i - 160) / 16)
                            : digit(in[48 + i % 4], (i - 240) / 4);
  }
}

// qs[64] as in Q2_K | d
void read_tq2_0(const uint8_t* in, uint32_t g, BlockGroup& out) {
  set_scales(u16_at(in + 64), 0, 0, out);
  for (uint32_t k = 0; k < 32; ++k) out.code[k] = in[32 * (g / 4) + k] >> 2 * (g % 4) & 3;
}

}  // namespace

void read_grid_group(DType type, const uint8_t* block, uint32_t index, BlockGroup& out) {
  switch (type) {
    case DType::kIQ3_S:
      return read_iq3_s(block, index, out);
    case DType::kIQ3_XXS:
      return read_iq3_xxs(block, index, out);
    case DType::kIQ2_S:
      return read_iq2_s(block, index, out);
    case DType::kIQ2_XS:
      return read_iq2_xs(block, index, out);
    case DType::kIQ2_XXS:
      return read_iq2_xxs(block, index, out);
    case DType::kIQ1_S:
      return read_iq1_s(block, index, out);
    case DType::kIQ1_M:
      return read_iq1_m(block, index, out);
    case DType::kTQ1_0:
      return read_tq1_0(block, index, out);
    case DType::kTQ2_0:
      return read_tq2_0(block, index, out);
    default:
      KVICK_CHECK(false, "{} has no grid", dtype_info(type).name);
  }
}

}  // namespace kvick::kernels
