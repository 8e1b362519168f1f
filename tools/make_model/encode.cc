#include "make_model/encode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "make_model/encode_table.h"

#include "base/check.h"

namespace kvick::tools {
namespace {

using kernels::DType;
using kernels::f16_to_f32;
using kernels::f32_to_f16;

constexpr int kBlock = 32;   // of the old formats
constexpr int kSuper = 256;  // of the K formats

int nearest(float x, int low, int high) {
  return std::clamp(static_cast<int>(x + (x < 0 ? -0.5f : 0.5f)), low, high);
}

float inverse(float x) { return x != 0 ? 1.0f / x : 0.0f; }

// Writes a float16 and returns what a reader will see in it.
float put_half(float value, uint8_t* at) {
  const uint16_t half = f32_to_f16(value);
  std::memcpy(at, &half, sizeof half);
  return f16_to_f32(half);
}

// The element of the largest magnitude, with its sign.
float extreme(const float* x, int n) {
  float best = 0;
  for (int i = 0; i < n; ++i)
    if (std::fabs(x[i]) > std::fabs(best)) best = x[i];
  return best;
}

void block_q8_0(const float* x, uint8_t* out) {
  const float scale = put_half(std::fabs(extreme(x, kBlock)) / 127.0f, out);
  const float inv = inverse(scale);
  for (int i = 0; i < kBlock; ++i)
    out[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(nearest(x[i] * inv, -127, 127)));
}

// Q4_0, Q4_1, Q5_0, Q5_1: [scale][min if any][32 high bits if 5][16 bytes: element i low, i+16
// high].
void block_old(const float* x, int bits, bool has_min, uint8_t* out) {
  const int top = (1 << bits) - 1;
  float scale, low;
  if (has_min) {
    const auto [least, most] = std::minmax_element(x, x + kBlock);
    scale = put_half((*most - *least) / static_cast<float>(top), out);
    low = put_half(*least, out + 2);
    out += 4;
  } else {
    const int half = 1 << (bits - 1);
    scale = put_half(extreme(x, kBlock) / static_cast<float>(-half), out);
    low = -scale * static_cast<float>(half);
    out += 2;
  }
  const float inv = inverse(scale);
  uint32_t high = 0;
  uint8_t* nibbles = out + (bits == 5 ? 4 : 0);
  std::memset(nibbles, 0, kBlock / 2);
  for (int i = 0; i < kBlock; ++i) {
    const int u = nearest((x[i] - low) * inv, 0, top);
    nibbles[i % 16] |= static_cast<uint8_t>((u & 15) << (i < 16 ? 0 : 4));
    high |= static_cast<uint32_t>(u >> 4) << i;
  }
  if (bits == 5) std::memcpy(out, &high, sizeof high);
}

// One superblock as integers: x[i] ~ d * scale[g] * u[i] - dmin * min[g], or d * scale[g] * u[i] if
// symmetric.
struct Super {
  std::array<int, 16> scale{}, min{};
  std::array<int, kSuper> u{};
};

// Writes d and dmin as float16 and fills `s`; `group` elements share a scale; u in 0..top, scales
// and mins in 0..field.
Super quantise_asymmetric(const float* x, int group, int top, int field, uint8_t* d_at,
                          uint8_t* dmin_at) {
  Super s;
  std::array<float, 16> scales{}, mins{};
  const int groups = kSuper / group;
  for (int g = 0; g < groups; ++g) {
    const auto [least, most] = std::minmax_element(x + g * group, x + (g + 1) * group);
    mins[g] = std::max(-*least, 0.0f);
    scales[g] = std::max(*most + mins[g], 0.0f) / static_cast<float>(top);
  }
  const float d =
      put_half(*std::max_element(scales.begin(), scales.end()) / static_cast<float>(field), d_at);
  const float dmin =
      put_half(*std::max_element(mins.begin(), mins.end()) / static_cast<float>(field), dmin_at);
  for (int g = 0; g < groups; ++g) {
    s.scale[g] = nearest(scales[g] * inverse(d), 0, field);
    s.min[g] = nearest(mins[g] * inverse(dmin), 0, field);
    const float inv = inverse(d * static_cast<float>(s.scale[g]));
    const float offset = dmin * static_cast<float>(s.min[g]);
    for (int i = g * group; i < (g + 1) * group; ++i)
      s.u[i] = nearest((x[i] + offset) * inv, 0, top);
  }
  return s;
}

// u in -half..half-1 and scales in -field..field-1, both signed; groups of 16.
Super quantise_symmetric(const float* x, int half, int field, uint8_t* d_at) {
  Super s;
  std::array<float, 16> scales{};
  for (int g = 0; g < 16; ++g) scales[g] = extreme(x + g * 16, 16) / static_cast<float>(-half);
  const float d = put_half(extreme(scales.data(), 16) / static_cast<float>(-field), d_at);
  for (int g = 0; g < 16; ++g) {
    s.scale[g] = nearest(scales[g] * inverse(d), -field, field - 1);
    const float inv = inverse(d * static_cast<float>(s.scale[g]));
    for (int i = g * 16; i < (g + 1) * 16; ++i) s.u[i] = nearest(x[i] * inv, -half, half - 1);
  }
  return s;
}

// Two bits of each u, at `bits`: byte l of a half of 128 holds elements l, l+32, l+64, l+96.
void put_two_bits(const Super& s, int shift, uint8_t* bits) {
  for (int i = 0; i < kSuper; ++i)
    bits[i / 128 * 32 + i % 32] |=
        static_cast<uint8_t>((s.u[i] >> shift & 3) << (i % 128 / 32 * 2));
}

// [16 bytes: scale low, min high][64: two bits each][d][dmin]
void block_q2_k(const float* x, uint8_t* out) {
  const Super s = quantise_asymmetric(x, 16, 3, 15, out + 80, out + 82);
  std::memset(out, 0, 80);
  for (int g = 0; g < 16; ++g) out[g] = static_cast<uint8_t>(s.scale[g] | s.min[g] << 4);
  put_two_bits(s, 0, out + 16);
}

// [32: third bits][64: two bits each][12: scales + 32, low nibbles then bit pairs][d]
void block_q3_k(const float* x, uint8_t* out) {
  Super s = quantise_symmetric(x, 4, 32, out + 108);
  std::memset(out, 0, 108);
  for (int& u : s.u) u += 4;
  for (int i = 0; i < kSuper; ++i) out[i % 32] |= static_cast<uint8_t>((s.u[i] >> 2) << (i / 32));
  put_two_bits(s, 0, out + 32);
  uint8_t* scales = out + 96;
  for (int g = 0; g < 16; ++g) {
    const int v = s.scale[g] + 32;
    scales[g % 8] |= static_cast<uint8_t>((v & 15) << (g < 8 ? 0 : 4));
    scales[8 + g % 4] |= static_cast<uint8_t>((v >> 4) << (g / 4 * 2));
  }
}

// The 12 bytes that hold eight 6-bit scales and mins in Q4_K and Q5_K.
void put_scales_and_mins(const Super& s, uint8_t* out) {
  for (int j = 0; j < 4; ++j) {
    out[j] = static_cast<uint8_t>(s.scale[j] | (s.scale[j + 4] >> 4) << 6);
    out[j + 4] = static_cast<uint8_t>(s.min[j] | (s.min[j + 4] >> 4) << 6);
    out[j + 8] = static_cast<uint8_t>((s.scale[j + 4] & 15) | (s.min[j + 4] & 15) << 4);
  }
}

// Four bits of each u: byte l of 64 elements holds l and l+32.
void put_nibbles(const Super& s, uint8_t* out) {
  for (int i = 0; i < kSuper; ++i)
    out[i / 64 * 32 + i % 32] |= static_cast<uint8_t>((s.u[i] & 15) << (i % 64 < 32 ? 0 : 4));
}

// [d][dmin][12: scales and mins][128: nibbles]
void block_q4_k(const float* x, uint8_t* out) {
  const Super s = quantise_asymmetric(x, 32, 15, 63, out, out + 2);
  std::memset(out + 4, 0, 140);
  put_scales_and_mins(s, out + 4);
  put_nibbles(s, out + 16);
}

// [d][dmin][12: scales and mins][32: fifth bits][128: nibbles]
void block_q5_k(const float* x, uint8_t* out) {
  const Super s = quantise_asymmetric(x, 32, 31, 63, out, out + 2);
  std::memset(out + 4, 0, 172);
  put_scales_and_mins(s, out + 4);
  for (int i = 0; i < kSuper; ++i)
    out[16 + i % 32] |= static_cast<uint8_t>((s.u[i] >> 4) << (i / 32));
  put_nibbles(s, out + 48);
}

// [128: nibbles, byte l of 128 elements holds l and l+64][64: two bits each][16: int8 scales][d]
void block_q6_k(const float* x, uint8_t* out) {
  Super s = quantise_symmetric(x, 32, 128, out + 208);
  std::memset(out, 0, 208);
  for (int& u : s.u) u += 32;
  for (int i = 0; i < kSuper; ++i)
    out[i / 128 * 64 + i % 64] |= static_cast<uint8_t>((s.u[i] & 15) << (i % 128 < 64 ? 0 : 4));
  put_two_bits(s, 4, out + 128);
  for (int g = 0; g < 16; ++g) out[192 + g] = static_cast<uint8_t>(static_cast<int8_t>(s.scale[g]));
}

void encode_block(DType type, const float* x, uint8_t* out) {
  switch (type) {
    case DType::kQ8_0:
      return block_q8_0(x, out);
    case DType::kQ4_0:
      return block_old(x, 4, false, out);
    case DType::kQ4_1:
      return block_old(x, 4, true, out);
    case DType::kQ5_0:
      return block_old(x, 5, false, out);
    case DType::kQ5_1:
      return block_old(x, 5, true, out);
    case DType::kQ2_K:
      return block_q2_k(x, out);
    case DType::kQ3_K:
      return block_q3_k(x, out);
    case DType::kQ4_K:
      return block_q4_k(x, out);
    case DType::kQ5_K:
      return block_q5_k(x, out);
    case DType::kQ6_K:
      return block_q6_k(x, out);
    default:
      return encode_table_block(type, x, out);
  }
}

}  // namespace

void encode(DType type, const float* in, size_t n, std::byte* out) {
  const kernels::DTypeInfo& info = kernels::dtype_info(type);
  KVICK_CHECK_EQ(n % info.block, 0u);
  auto* bytes = reinterpret_cast<uint8_t*>(out);
  if (type == DType::kF32) {
    std::memcpy(bytes, in, n * sizeof(float));
    return;
  }
  if (info.block == 1) {
    for (size_t i = 0; i < n; ++i) {
      const uint16_t half = type == DType::kF16 ? f32_to_f16(in[i]) : kernels::f32_to_bf16(in[i]);
      std::memcpy(bytes + 2 * i, &half, sizeof half);
    }
    return;
  }
  for (size_t i = 0; i < n / info.block; ++i)
    encode_block(type, in + i * info.block, bytes + i * info.block_bytes);
}

}  // namespace kvick::tools
