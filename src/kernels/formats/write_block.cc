#include "kernels/formats/write_block.h"

#include <algorithm>
#include <cstring>

namespace kvick::kernels {
namespace {

constexpr int kSuper = 256;

void put_half(uint16_t half, uint8_t* at) {
  at[0] = static_cast<uint8_t>(half);
  at[1] = static_cast<uint8_t>(half >> 8);
}

// 32 codes: element i in the low half of byte i, i + 16 in the high one.
void put_nibbles_of_32(const int* code, uint8_t* out) {
  for (int i = 0; i < 16; ++i)
    out[i] = static_cast<uint8_t>((code[i] & 15) | (code[i + 16] & 15) << 4);
}

// [d][m, if any][32 fifth bits, if any][16: nibbles]
void write_small(const BlockCodes& block, int bits, bool has_min, uint8_t* out) {
  put_half(block.d, out);
  out += 2;
  if (has_min) {
    put_half(block.m, out);
    out += 2;
  }
  if (bits == 5) {
    for (int i = 0; i < 32; ++i) out[i / 8] |= static_cast<uint8_t>((block.code[i] >> 4) << i % 8);
    out += 4;
  }
  put_nibbles_of_32(block.code.data(), out);
}

void write_q8_0(const BlockCodes& block, uint8_t* out) {
  put_half(block.d, out);
  for (int i = 0; i < 32; ++i) out[2 + i] = static_cast<uint8_t>(block.code[i] - 128);
}

// Two bits of each code, at `shift`: byte l of a half of 128 holds elements l, l+32, l+64, l+96.
void put_two_bits(const BlockCodes& block, int shift, uint8_t* out) {
  for (int i = 0; i < kSuper; ++i)
    out[i / 128 * 32 + i % 32] |=
        static_cast<uint8_t>((block.code[i] >> shift & 3) << (i % 128 / 32 * 2));
}

// [16: scale low, min high][64: two bits each][d][dmin]
void write_q2_k(const BlockCodes& block, uint8_t* out) {
  for (int g = 0; g < 16; ++g) out[g] = static_cast<uint8_t>(block.scale[g] | block.min[g] << 4);
  put_two_bits(block, 0, out + 16);
  put_half(block.d, out + 80);
  put_half(block.m, out + 82);
}

// [32: third bits][64: two bits each][12: scales + 32, low nibbles then bit pairs][d]
void write_q3_k(const BlockCodes& block, uint8_t* out) {
  for (int i = 0; i < kSuper; ++i)
    out[i % 32] |= static_cast<uint8_t>((block.code[i] >> 2) << (i / 32));
  put_two_bits(block, 0, out + 32);
  uint8_t* scales = out + 96;
  for (int g = 0; g < 16; ++g) {
    const int v = block.scale[g] + 32;
    scales[g % 8] |= static_cast<uint8_t>((v & 15) << (g < 8 ? 0 : 4));
    scales[8 + g % 4] |= static_cast<uint8_t>((v >> 4) << (g / 4 * 2));
  }
  put_half(block.d, out + 108);
}

// [d][dmin][12: eight scales and minima of 6 bits], in Q4_K and Q5_K.
void put_k_header(const BlockCodes& block, uint8_t* out) {
  put_half(block.d, out);
  put_half(block.m, out + 2);
  const auto& scale = block.scale;
  const auto& min = block.min;
  for (int j = 0; j < 4; ++j) {
    out[4 + j] = static_cast<uint8_t>(scale[j] | (scale[j + 4] >> 4) << 6);
    out[8 + j] = static_cast<uint8_t>(min[j] | (min[j + 4] >> 4) << 6);
    out[12 + j] = static_cast<uint8_t>((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
  }
}

// Four bits of each code: byte l of 64 elements holds l and l+32.
void put_nibbles(const BlockCodes& block, uint8_t* out) {
  for (int i = 0; i < kSuper; ++i)
    out[i / 64 * 32 + i % 32] |=
        static_cast<uint8_t>((block.code[i] & 15) << (i % 64 < 32 ? 0 : 4));
}

// [header][128: nibbles]
void write_q4_k(const BlockCodes& block, uint8_t* out) {
  put_k_header(block, out);
  put_nibbles(block, out + 16);
}

// [header][32: fifth bits][128: nibbles]
void write_q5_k(const BlockCodes& block, uint8_t* out) {
  put_k_header(block, out);
  for (int i = 0; i < kSuper; ++i)
    out[16 + i % 32] |= static_cast<uint8_t>((block.code[i] >> 4) << (i / 32));
  put_nibbles(block, out + 48);
}

// [128: nibbles, byte l of 128 elements holds l and l+64][64: two bits each][16: int8 scales][d]
void write_q6_k(const BlockCodes& block, uint8_t* out) {
  for (int i = 0; i < kSuper; ++i)
    out[i / 128 * 64 + i % 64] |=
        static_cast<uint8_t>((block.code[i] & 15) << (i % 128 < 64 ? 0 : 4));
  put_two_bits(block, 4, out + 128);
  for (int g = 0; g < 16; ++g) out[192 + g] = static_cast<uint8_t>(block.scale[g]);
  put_half(block.d, out + 208);
}

// [d][high pairs of 8 scales + 32][their low nibbles][128: nibbles of each 32]
void write_iq4_xs(const BlockCodes& block, uint8_t* out) {
  put_half(block.d, out);
  uint32_t high = 0;
  for (int g = 0; g < 8; ++g) {
    const int scale = block.scale[g] + 32;
    high |= static_cast<uint32_t>(scale >> 4) << 2 * g;
    out[4 + g / 2] |= static_cast<uint8_t>((scale & 15) << 4 * (g % 2));
    put_nibbles_of_32(block.code.data() + size_t{32} * static_cast<size_t>(g), out + 8 + 16 * g);
  }
  put_half(static_cast<uint16_t>(high), out + 2);
}

// [exponent][16: nibbles]
void write_mxfp4(const BlockCodes& block, uint8_t* out) {
  out[0] = static_cast<uint8_t>(block.scale[0]);
  put_nibbles_of_32(block.code.data(), out + 1);
}

}  // namespace

bool has_block_writer(DType type) {
  return (type >= DType::kQ8_0 && type <= DType::kTQ2_0) && type != DType::kNVFP4;
}

void write_block(DType type, const BlockCodes& block, std::byte* bytes) {
  auto* out = reinterpret_cast<uint8_t*>(bytes);
  std::memset(out, 0, dtype_info(type).block_bytes);
  switch (type) {
    case DType::kQ8_0:
      return write_q8_0(block, out);
    case DType::kQ4_0:
    case DType::kIQ4_NL:
      return write_small(block, 4, false, out);
    case DType::kQ4_1:
      return write_small(block, 4, true, out);
    case DType::kQ5_0:
      return write_small(block, 5, false, out);
    case DType::kQ5_1:
      return write_small(block, 5, true, out);
    case DType::kQ2_K:
      return write_q2_k(block, out);
    case DType::kQ3_K:
      return write_q3_k(block, out);
    case DType::kQ4_K:
      return write_q4_k(block, out);
    case DType::kQ5_K:
      return write_q5_k(block, out);
    case DType::kQ6_K:
      return write_q6_k(block, out);
    case DType::kIQ4_XS:
      return write_iq4_xs(block, out);
    case DType::kMXFP4:
      return write_mxfp4(block, out);
    default:
      return write_grid_block(type, block, out);
  }
}

}  // namespace kvick::kernels
