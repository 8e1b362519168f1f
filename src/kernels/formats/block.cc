#include "kernels/formats/block.h"

#include <cmath>
#include <cstring>

#include "base/check.h"

namespace kvick::kernels {
namespace {

uint16_t half_at(const uint8_t* in) { return static_cast<uint16_t>(in[0] | in[1] << 8); }
uint16_t negated(uint16_t half) { return half ^ 0x8000u; }

void one_level(BlockGroup& out, uint16_t d, uint16_t m) {
  out.d = d;
  out.m = m;
  out.scale[0] = out.scale[1] = out.min[0] = out.min[1] = 1;
}

// 16 bytes: low nibbles are weights 0..15, high nibbles 16..31.
void read_nibbles(const uint8_t* in, BlockGroup& out) {
  for (int i = 0; i < 16; ++i) {
    out.code[i] = in[i] & 15;
    out.code[i + 16] = in[i] >> 4;
  }
}

// Bit i of 32 becomes bit 4 of weight i.
void add_fifth_bits(const uint8_t* in, BlockGroup& out) {
  for (int i = 0; i < 32; ++i) out.code[i] |= static_cast<uint8_t>((in[i / 8] >> (i % 8) & 1) << 4);
}

void read_q8_0(const uint8_t* in, BlockGroup& out) {
  one_level(out, half_at(in), 0);
  for (int i = 0; i < 32; ++i) out.code[i] = in[2 + i] ^ 0x80;
}

void read_q4_0(const uint8_t* in, BlockGroup& out) {
  one_level(out, half_at(in), 0);
  read_nibbles(in + 2, out);
}

void read_q4_1(const uint8_t* in, BlockGroup& out) {
  one_level(out, half_at(in), half_at(in + 2));
  read_nibbles(in + 4, out);
}

void read_q5_0(const uint8_t* in, BlockGroup& out) {
  one_level(out, half_at(in), 0);
  read_nibbles(in + 6, out);
  add_fifth_bits(in + 2, out);
}

void read_q5_1(const uint8_t* in, BlockGroup& out) {
  one_level(out, half_at(in), half_at(in + 2));
  read_nibbles(in + 8, out);
  add_fifth_bits(in + 4, out);
}

// scales[16]: scale in the low nibble, min in the high one | qs[64]: 2 bits per weight, group g in
// bit pair g % 4 | d | dmin
void read_q2_k(const uint8_t* in, uint32_t g, BlockGroup& out) {
  const uint8_t* qs = in + 16 + 32 * (g / 4);
  for (int i = 0; i < 32; ++i) out.code[i] = qs[i] >> 2 * (g % 4) & 3;
  for (int h = 0; h < 2; ++h) {
    out.scale[h] = static_cast<int8_t>(in[2 * g + h] & 15);
    out.min[h] = static_cast<int8_t>(in[2 * g + h] >> 4);
  }
  out.d = half_at(in + 80);
  out.m = negated(half_at(in + 82));
}

// hmask[32]: third bits, bit g for group g | qs[64] as in Q2_K | scales[12]: 16 of 6 bits, stored
// plus 32 | d
void read_q3_k(const uint8_t* in, uint32_t g, BlockGroup& out) {
  const uint8_t* qs = in + 32 + 32 * (g / 4);
  for (int i = 0; i < 32; ++i)
    out.code[i] = static_cast<uint8_t>((qs[i] >> 2 * (g % 4) & 3) | (in[i] >> g & 1) << 2);
  const uint8_t* scales = in + 96;
  for (uint32_t h = 0; h < 2; ++h) {
    const uint32_t s = 2 * g + h;
    const int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
    const int high = scales[8 + s % 4] >> 2 * (s / 4) & 3;
    out.scale[h] = static_cast<int8_t>((low | high << 4) - 32);
    out.min[h] = 0;
  }
  out.d = half_at(in + 108);
  out.m = 0;
}

// d | dmin | scales[12]: 8 scales and 8 mins of 6 bits. Shared by Q4_K and Q5_K.
void read_k_header(const uint8_t* in, uint32_t g, BlockGroup& out) {
  const uint8_t* s = in + 4;
  const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
  const int min = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;
  out.scale[0] = out.scale[1] = static_cast<int8_t>(scale);
  out.min[0] = out.min[1] = static_cast<int8_t>(min);
  out.d = half_at(in);
  out.m = negated(half_at(in + 2));
}

void read_q4_k(const uint8_t* in, uint32_t g, BlockGroup& out) {
  read_k_header(in, g, out);
  const uint8_t* qs = in + 16 + 32 * (g / 2);
  for (int i = 0; i < 32; ++i) out.code[i] = qs[i] >> 4 * (g % 2) & 15;
}

void read_q5_k(const uint8_t* in, uint32_t g, BlockGroup& out) {
  read_k_header(in, g, out);
  const uint8_t* qh = in + 16;
  const uint8_t* qs = in + 48 + 32 * (g / 2);
  for (int i = 0; i < 32; ++i)
    out.code[i] = static_cast<uint8_t>((qs[i] >> 4 * (g % 2) & 15) | (qh[i] >> g & 1) << 4);
}

// ql[128]: low nibbles | qh[64]: high pairs | int8 scales[16] | d. Each half of 128 weights is four
// groups: the first two have the low nibbles of 64 bytes, the last two their high nibbles.
void read_q6_k(const uint8_t* in, uint32_t g, BlockGroup& out) {
  const uint32_t half = g / 4, k = g % 4;
  const uint8_t* ql = in + 64 * half + 32 * (k % 2);
  const uint8_t* qh = in + 128 + 32 * half;
  for (int i = 0; i < 32; ++i)
    out.code[i] = static_cast<uint8_t>((ql[i] >> 4 * (k / 2) & 15) | (qh[i] >> 2 * k & 3) << 4);
  std::memcpy(out.scale, in + 192 + 2 * g, 2);
  out.min[0] = out.min[1] = 0;
  out.d = half_at(in + 208);
  out.m = 0;
}

// d | 6-bit scales, stored plus 32: high bit pairs as u16, then low nibbles [4] | qs[128], nibbles
// as in Q4_0
void read_iq4_xs(const uint8_t* in, uint32_t g, BlockGroup& out) {
  one_level(out, half_at(in), 0);
  const int low = in[4 + g / 2] >> 4 * (g % 2) & 15, high = half_at(in + 2) >> 2 * g & 3;
  out.scale[0] = out.scale[1] = static_cast<int8_t>((low | high << 4) - 32);
  read_nibbles(in + 8 + 16 * g, out);
}

// exponent | qs[16], nibbles as in Q4_0
void read_mxfp4(const uint8_t* in, BlockGroup& out) {
  one_level(out, 0, 0);
  out.scale[0] = out.scale[1] = static_cast<int8_t>(in[0] - 128);
  read_nibbles(in + 1, out);
}

// scales[4], one per 16 weights | qs[32]: of each 16, low nibbles are weights 0..7, high nibbles
// 8..15. As in ggml, the sign of a scale is ignored, and 0x7f (NaN elsewhere) is zero.
void read_nvfp4(const uint8_t* in, uint32_t g, BlockGroup& out) {
  one_level(out, 0, 0);
  for (uint32_t h = 0; h < 2; ++h) {
    const uint8_t scale = in[2 * g + h], *qs = in + 4 + 16 * g + 8 * h;
    out.scale[h] = static_cast<int8_t>(scale == 0x7f ? 0 : scale & 0x7f);
    for (int i = 0; i < 8; ++i) {
      out.code[16 * h + i] = qs[i] & 15;
      out.code[16 * h + 8 + i] = qs[i] >> 4;
    }
  }
}

// The shifted bits are a float16. Its exponent bias is 15 instead of 7, so the value is multiplied
// by 2^8.
float e4m3(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 7)) * 256; }

// Where the float16 scales of a block are, the minimum behind the scale.
struct Halves {
  size_t first, count;
};
Halves halves_of(DType type) {
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {80, 2};
    case DType::kQ3_K:
      return {108, 1};
    case DType::kQ6_K:
      return {208, 1};
    case DType::kTQ1_0:
      return {52, 1};
    case DType::kTQ2_0:
      return {64, 1};
    case DType::kMXFP4:
    case DType::kNVFP4:
    case DType::kIQ1_M:
      return {0, 0};
    default:
      return {0, 1};
  }
}

}  // namespace

bool finite_scales(DType type, const std::byte* blocks, size_t count) {
  constexpr unsigned kExponent = 0x7c00;  // all of these bits are set in what is not finite
  const auto* in = reinterpret_cast<const uint8_t*>(blocks);
  const size_t bytes = dtype_info(type).block_bytes;
  const Halves halves = halves_of(type);
  bool finite = true;
  for (const uint8_t* const end = in + count * bytes; in != end; in += bytes) {
    for (size_t i = 0; i < halves.count; ++i)
      finite = finite && (half_at(in + halves.first + 2 * i) & kExponent) != kExponent;
    // Its scale is spread over the high halves of four bytes: here are those with the exponent.
    if (type == DType::kIQ1_M)
      finite = finite && ((in[55] >> 4 << 12 | in[53] >> 4 << 8) & kExponent) != kExponent;
  }
  return finite;
}

float scale_of(const PackFormat& format, uint16_t d, int8_t byte) {
  switch (format.scales) {
    case ScaleKind::kE8M0:
      return std::ldexp(1.0F, byte);
    case ScaleKind::kE4M3:
      return e4m3(static_cast<uint8_t>(byte)) * format.unit;
    case ScaleKind::kTwoLevels:
      return f16_to_f32(d) * format.unit * static_cast<float>(byte);
    case ScaleKind::kHalves:
    case ScaleKind::kHalf256:
      break;
  }
  return f16_to_f32(d) * format.unit;
}

void read_group(DType type, const std::byte* block, uint32_t index, BlockGroup& out) {
  const auto* in = reinterpret_cast<const uint8_t*>(block);
  switch (type) {
    case DType::kQ8_0:
      return read_q8_0(in, out);
    case DType::kQ4_0:
      return read_q4_0(in, out);
    case DType::kQ4_1:
      return read_q4_1(in, out);
    case DType::kQ5_0:
      return read_q5_0(in, out);
    case DType::kQ5_1:
      return read_q5_1(in, out);
    case DType::kQ2_K:
      return read_q2_k(in, index, out);
    case DType::kQ3_K:
      return read_q3_k(in, index, out);
    case DType::kQ4_K:
      return read_q4_k(in, index, out);
    case DType::kQ5_K:
      return read_q5_k(in, index, out);
    case DType::kQ6_K:
      return read_q6_k(in, index, out);
    case DType::kIQ4_NL:
      return read_q4_0(in, out);
    case DType::kIQ4_XS:
      return read_iq4_xs(in, index, out);
    case DType::kMXFP4:
      return read_mxfp4(in, out);
    case DType::kNVFP4:
      return read_nvfp4(in, index, out);
    case DType::kIQ3_S:
    case DType::kIQ3_XXS:
    case DType::kIQ2_S:
    case DType::kIQ2_XS:
    case DType::kIQ2_XXS:
    case DType::kIQ1_S:
    case DType::kIQ1_M:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return read_grid_group(type, in, index, out);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kStatic8:
    case DType::kStatic16:
    case DType::kQ8:
    case DType::kQ4:
    case DType::kKivi4K:
    case DType::kKivi4V:
    case DType::kQ3:
    case DType::kQ2:
      break;
  }
  KVICK_CHECK(false, "{} has no groups", dtype_info(type).name);
}

}  // namespace kvick::kernels
