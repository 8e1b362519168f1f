// Writes the blocks of IQ1 to IQ3 and of ternary weights: the reverse of block_grid.cc, which
// describes the layouts.

#include <algorithm>
#include <bit>
#include <span>

#include "base/check.h"
#include "kernels/formats/grids.h"
#include "kernels/formats/write_block.h"

namespace kvick::kernels {
namespace {

void put_u16(uint32_t value, uint8_t* at) {
  at[0] = static_cast<uint8_t>(value);
  at[1] = static_cast<uint8_t>(value >> 8);
}
void put_u32(uint32_t value, uint8_t* at) {
  put_u16(value, at);
  put_u16(value >> 16, at + 2);
}

// Returns the index of the grid point that the low `bits` bits of n codes form. Grids are in
// ascending order.
uint32_t index_in(std::span<const uint16_t> grid, const int* code, uint32_t n, uint32_t bits) {
  uint32_t point = 0;
  for (uint32_t i = 0; i < n; ++i)
    point |= (static_cast<uint32_t>(code[i]) & ((1U << bits) - 1)) << bits * i;
  const auto at = std::lower_bound(grid.begin(), grid.end(), point);
  KVICK_CHECK(at != grid.end() && *at == point, "{} is no point of the grid", point);
  return static_cast<uint32_t>(at - grid.begin());
}

// Returns the signs of 8 codes, which are their bit `bit`.
uint32_t signs_of(const int* code, uint32_t bit) {
  uint32_t signs = 0;
  for (uint32_t i = 0; i < 8; ++i) signs |= (static_cast<uint32_t>(code[i]) >> bit & 1) << i;
  return signs;
}
uint32_t seven_signs_of(const int* code, uint32_t bit) {
  const uint32_t signs = signs_of(code, bit);
  KVICK_CHECK(std::popcount(signs) % 2 == 0, "signs {:x} of 8 weights are not even", signs);
  return signs & 127;
}

// Returns the stored bits of a scale. Scales are odd, so the lowest bit is left out.
uint32_t scale_field(const BlockCodes& block, uint32_t group) {
  return static_cast<uint32_t>(block.scale[group]) >> 1;
}

void write_iq3_s(const BlockCodes& block, uint8_t* out) {
  put_u16(block.d, out);
  for (uint32_t k = 0; k < 64; ++k) {
    const uint32_t index = index_in(kIq3SGrid, &block.code[4 * k], 4, 3);
    out[2 + k] = static_cast<uint8_t>(index);
    out[66 + k / 8] |= static_cast<uint8_t>((index >> 8) << k % 8);
  }
  for (uint32_t k = 0; k < 32; ++k)
    out[74 + k] = static_cast<uint8_t>(signs_of(&block.code[8 * k], 3));
  for (uint32_t g = 0; g < 8; ++g)
    out[106 + g / 2] |= static_cast<uint8_t>(scale_field(block, g) << 4 * (g % 2));
}

// Returns a word of 4 times 7 signs and a scale of 4 bits.
uint32_t signs_and_scale(const BlockCodes& block, uint32_t group, uint32_t sign_bit) {
  uint32_t all = scale_field(block, group) << 28;
  for (uint32_t l = 0; l < 4; ++l)
    all |= seven_signs_of(&block.code[32 * group + 8 * l], sign_bit) << 7 * l;
  return all;
}

void write_iq3_xxs(const BlockCodes& block, uint8_t* out) {
  put_u16(block.d, out);
  for (uint32_t k = 0; k < 64; ++k)
    out[2 + k] = static_cast<uint8_t>(index_in(kIq3XxsGrid, &block.code[4 * k], 4, 3));
  for (uint32_t g = 0; g < 8; ++g) put_u32(signs_and_scale(block, g, 3), out + 66 + 4 * g);
}

// Writes two scales of 4 bits per byte.
void put_scale_pairs(const BlockCodes& block, uint8_t* out) {
  for (uint32_t g = 0; g < 8; ++g)
    out[g] = static_cast<uint8_t>(scale_field(block, 2 * g) | scale_field(block, 2 * g + 1) << 4);
}

void write_iq2_s(const BlockCodes& block, uint8_t* out) {
  put_u16(block.d, out);
  for (uint32_t k = 0; k < 32; ++k) {
    const uint32_t index = index_in(kIq2SGrid, &block.code[8 * k], 8, 2);
    out[2 + k] = static_cast<uint8_t>(index);
    out[34 + k] = static_cast<uint8_t>(signs_of(&block.code[8 * k], 2));
    out[66 + k / 4] |= static_cast<uint8_t>((index >> 8) << 2 * (k % 4));
  }
  put_scale_pairs(block, out + 74);
}

void write_iq2_xs(const BlockCodes& block, uint8_t* out) {
  put_u16(block.d, out);
  for (uint32_t k = 0; k < 32; ++k) {
    const int* code = &block.code[8 * k];
    put_u16(index_in(kIq2XsGrid, code, 8, 2) | seven_signs_of(code, 2) << 9, out + 2 + 2 * k);
  }
  put_scale_pairs(block, out + 66);
}

void write_iq2_xxs(const BlockCodes& block, uint8_t* out) {
  put_u16(block.d, out);
  for (uint32_t g = 0; g < 8; ++g) {
    uint8_t* points = out + 2 + 8 * g;
    for (uint32_t l = 0; l < 4; ++l)
      points[l] = static_cast<uint8_t>(index_in(kIq2XxsGrid, &block.code[32 * g + 8 * l], 8, 2));
    put_u32(signs_and_scale(block, g, 2), points + 4);
  }
}

uint32_t added_sign(const int* code) { return static_cast<uint32_t>(code[0]) >> 2 & 1; }

void write_iq1_s(const BlockCodes& block, uint8_t* out) {
  put_u16(block.d, out);
  for (uint32_t g = 0; g < 8; ++g) {
    uint32_t high = scale_field(block, g) << 12 | added_sign(&block.code[32 * g]) << 15;
    for (uint32_t l = 0; l < 4; ++l) {
      const uint32_t index = index_in(kIq1Grid, &block.code[32 * g + 8 * l], 8, 2);
      out[2 + 4 * g + l] = static_cast<uint8_t>(index);
      high |= (index >> 8) << 3 * l;
    }
    put_u16(high, out + 34 + 2 * g);
  }
}

void write_iq1_m(const BlockCodes& block, uint8_t* out) {
  for (uint32_t k = 0; k < 32; ++k) {
    const int* code = &block.code[8 * k];
    const uint32_t index = index_in(kIq1Grid, code, 8, 2);
    out[k] = static_cast<uint8_t>(index);
    out[32 + k / 2] |= static_cast<uint8_t>((index >> 8 | added_sign(code) << 3) << 4 * (k % 2));
  }
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t field = (static_cast<uint32_t>(block.d) >> 4 * i & 15) << 12;
    for (uint32_t k = 0; k < 4; ++k) field |= scale_field(block, 4 * i + k) << 3 * k;
    put_u16(field, out + 48 + 2 * i);
  }
}

// Returns five base-3 digits, a fraction of 243, as the next higher fraction of 256.
uint8_t fraction_of(uint32_t digits) { return static_cast<uint8_t>((digits * 256 + 242) / 243); }

void write_tq1_0(const BlockCodes& block, uint8_t* out) {
  const auto five = [&](size_t first, size_t step, int n) {
    uint32_t digits = 0;
    for (size_t k = 0; k < 5; ++k)
      digits = 3 * digits +
               (static_cast<int>(k) < n ? static_cast<uint32_t>(block.code[first + step * k]) : 0);
    return fraction_of(digits);
  };
  for (size_t i = 0; i < 32; ++i) out[i] = five(i, 32, 5);
  for (size_t i = 0; i < 16; ++i) out[32 + i] = five(160 + i, 16, 5);
  for (size_t i = 0; i < 4; ++i) out[48 + i] = five(240 + i, 4, 4);
  put_u16(block.d, out + 52);
}

void write_tq2_0(const BlockCodes& block, uint8_t* out) {
  for (uint32_t i = 0; i < 256; ++i)
    out[i / 128 * 32 + i % 32] |= static_cast<uint8_t>((block.code[i] & 3) << 2 * (i % 128 / 32));
  put_u16(block.d, out + 64);
}

}  // namespace

void write_grid_block(DType type, const BlockCodes& block, uint8_t* out) {
  switch (type) {
    case DType::kIQ3_S:
      return write_iq3_s(block, out);
    case DType::kIQ3_XXS:
      return write_iq3_xxs(block, out);
    case DType::kIQ2_S:
      return write_iq2_s(block, out);
    case DType::kIQ2_XS:
      return write_iq2_xs(block, out);
    case DType::kIQ2_XXS:
      return write_iq2_xxs(block, out);
    case DType::kIQ1_S:
      return write_iq1_s(block, out);
    case DType::kIQ1_M:
      return write_iq1_m(block, out);
    case DType::kTQ1_0:
      return write_tq1_0(block, out);
    case DType::kTQ2_0:
      return write_tq2_0(block, out);
    default:
      KVICK_CHECK(false, "{} has no block writer", dtype_info(type).name);
  }
}

}  // namespace kvick::kernels
