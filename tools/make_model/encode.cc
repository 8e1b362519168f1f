#include "make_model/encode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "make_model/encode_table.h"

#include "base/check.h"
#include "kernels/formats/write_block.h"

namespace kvick::tools {
namespace {

using kernels::BlockCodes;
using kernels::DType;
using kernels::f16_to_f32;
using kernels::f32_to_f16;

constexpr int kBlock = 32;   // block of the formats before the K formats
constexpr int kSuper = 256;  // of the K formats

int nearest(float x, int low, int high) {
  return std::clamp(static_cast<int>(x + (x < 0 ? -0.5f : 0.5f)), low, high);
}

float inverse(float x) { return x != 0 ? 1.0f / x : 0.0f; }

// Rounds to float16 and returns the value that a reader will see.
float put_half(float value, uint16_t& half) {
  half = f32_to_f16(value);
  return f16_to_f32(half);
}

// Returns the element of the largest magnitude, with its sign.
float extreme(const float* x, int n) {
  float best = 0;
  for (int i = 0; i < n; ++i)
    if (std::fabs(x[i]) > std::fabs(best)) best = x[i];
  return best;
}

BlockCodes codes_q8_0(const float* x) {
  BlockCodes block;
  const float scale = put_half(std::fabs(extreme(x, kBlock)) / 127.0f, block.d);
  const float inv = inverse(scale);
  for (int i = 0; i < kBlock; ++i) block.code[i] = nearest(x[i] * inv, -127, 127) + 128;
  return block;
}

// Encodes Q4_0, Q4_1, Q5_0 and Q5_1.
BlockCodes codes_old(const float* x, int bits, bool has_min) {
  BlockCodes block;
  const int top = (1 << bits) - 1;
  float scale, low;
  if (has_min) {
    const auto [least, most] = std::minmax_element(x, x + kBlock);
    scale = put_half((*most - *least) / static_cast<float>(top), block.d);
    low = put_half(*least, block.m);
  } else {
    const int half = 1 << (bits - 1);
    scale = put_half(extreme(x, kBlock) / static_cast<float>(-half), block.d);
    low = -scale * static_cast<float>(half);
  }
  const float inv = inverse(scale);
  for (int i = 0; i < kBlock; ++i) block.code[i] = nearest((x[i] - low) * inv, 0, top);
  return block;
}

// x[i] ~ d * scale[g] * code[i] - dmin * min[g]; `group` elements share a scale; codes in 0..top,
// scales and minima in 0..field.
BlockCodes codes_asymmetric(const float* x, int group, int top, int field) {
  BlockCodes block;
  std::array<float, 16> scales{}, mins{};
  const int groups = kSuper / group;
  for (int g = 0; g < groups; ++g) {
    const auto [least, most] = std::minmax_element(x + g * group, x + (g + 1) * group);
    mins[g] = std::max(-*least, 0.0f);
    scales[g] = std::max(*most + mins[g], 0.0f) / static_cast<float>(top);
  }
  const float d = put_half(
      *std::max_element(scales.begin(), scales.end()) / static_cast<float>(field), block.d);
  const float dmin =
      put_half(*std::max_element(mins.begin(), mins.end()) / static_cast<float>(field), block.m);
  for (int g = 0; g < groups; ++g) {
    block.scale[g] = nearest(scales[g] * inverse(d), 0, field);
    block.min[g] = nearest(mins[g] * inverse(dmin), 0, field);
    const float inv = inverse(d * static_cast<float>(block.scale[g]));
    const float offset = dmin * static_cast<float>(block.min[g]);
    for (int i = g * group; i < (g + 1) * group; ++i)
      block.code[i] = nearest((x[i] + offset) * inv, 0, top);
  }
  return block;
}

// Codes are in 0..2 * half - 1 and scales in -field..field-1; 16 elements share a scale.
BlockCodes codes_symmetric(const float* x, int half, int field) {
  BlockCodes block;
  std::array<float, 16> scales{};
  for (int g = 0; g < 16; ++g) scales[g] = extreme(x + g * 16, 16) / static_cast<float>(-half);
  const float d = put_half(extreme(scales.data(), 16) / static_cast<float>(-field), block.d);
  for (int g = 0; g < 16; ++g) {
    block.scale[g] = nearest(scales[g] * inverse(d), -field, field - 1);
    const float inv = inverse(d * static_cast<float>(block.scale[g]));
    for (int i = g * 16; i < (g + 1) * 16; ++i)
      block.code[i] = nearest(x[i] * inv, -half, half - 1) + half;
  }
  return block;
}

BlockCodes codes_of(DType type, const float* x) {
  switch (type) {
    case DType::kQ8_0:
      return codes_q8_0(x);
    case DType::kQ4_0:
      return codes_old(x, 4, false);
    case DType::kQ4_1:
      return codes_old(x, 4, true);
    case DType::kQ5_0:
      return codes_old(x, 5, false);
    case DType::kQ5_1:
      return codes_old(x, 5, true);
    case DType::kQ2_K:
      return codes_asymmetric(x, 16, 3, 15);
    case DType::kQ3_K:
      return codes_symmetric(x, 4, 32);
    case DType::kQ4_K:
      return codes_asymmetric(x, 32, 15, 63);
    case DType::kQ5_K:
      return codes_asymmetric(x, 32, 31, 63);
    case DType::kQ6_K:
      return codes_symmetric(x, 32, 128);
    default:
      KVICK_CHECK(false, "{} is no type of these blocks", kernels::dtype_info(type).name);
  }
}

void encode_block(DType type, const float* x, std::byte* out) {
  if (type > DType::kQ6_K) return encode_table_block(type, x, reinterpret_cast<uint8_t*>(out));
  kernels::write_block(type, codes_of(type, x), out);
}

}  // namespace

void encode(DType type, const float* in, size_t n, std::byte* out) {
  const kernels::DTypeInfo& info = kernels::dtype_info(type);
  KVICK_CHECK_EQ(n % info.block, 0u);
  if (info.block == 1) return kernels::from_f32(type, in, n, out);
  for (size_t i = 0; i < n / info.block; ++i)
    encode_block(type, in + i * info.block, out + i * info.block_bytes);
}

}  // namespace kvick::tools
