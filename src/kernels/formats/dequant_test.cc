#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "base/check.h"
#include "kernels/formats/dtype.h"
#include "kernels/formats/test_blocks.h"

namespace kvick::kernels {
namespace {

uint64_t fnv(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value + 0.0f);
    for (int i = 0; i < 4; ++i) hash = (hash ^ (bits >> 8 * i & 0xff)) * 0x100000001b3u;
  }
  return hash;
}

struct Reference {
  DType type;
  uint64_t hash;
};
// Printed by dequant_reference.py with gguf 0.19 (its numpy dequantisers are checked against ggml's
// C code).
constexpr Reference kReferences[] = {
    {DType::kF16, 0x1f05576730e11455},     {DType::kBF16, 0xb6941511cfca605f},
    {DType::kQ8_0, 0xcd4641913f37d5b5},    {DType::kQ4_0, 0xacf8dd4605b03347},
    {DType::kQ4_1, 0xb91611dc9de847ff},    {DType::kQ5_0, 0xcec350092be449c5},
    {DType::kQ5_1, 0x90c8af334076c6a3},    {DType::kQ2_K, 0x870e6c8a294a8910},
    {DType::kQ3_K, 0xebb32a8a1b796e6f},    {DType::kQ4_K, 0x28d66a21c7184631},
    {DType::kQ5_K, 0x7b08445678b49295},    {DType::kQ6_K, 0xb00ba6d2eb3d1a9e},
    {DType::kIQ4_NL, 0x16cef58b529f43ae},  {DType::kIQ4_XS, 0xeeea96dcb02a1efe},
    {DType::kMXFP4, 0xa5c32734b3817dfa},   {DType::kNVFP4, 0xad12eee69cde921c},
    {DType::kIQ3_S, 0x8c44aff776d9d067},   {DType::kIQ3_XXS, 0xa56ab7d631f2aa9f},
    {DType::kIQ2_S, 0xbecfcb86b9e9de50},   {DType::kIQ2_XS, 0xc32d6d28ced3aac5},
    {DType::kIQ2_XXS, 0x333771c1a4eef99f}, {DType::kIQ1_S, 0x382a2e0c6a6ca91b},
    {DType::kIQ1_M, 0xed1ae76b537f32a5},   {DType::kTQ1_0, 0x3347824c08a0d02a},
    {DType::kTQ2_0, 0xea3afa645df53908},
};

TEST(Dequant, every_format_unpacks_64_random_blocks_to_the_bits_of_the_gguf_package) {
  for (const Reference& reference : kReferences) {
    const size_t n = size_t{64} * dtype_info(reference.type).block;
    std::vector<float> out(n);
    to_f32(reference.type, make_blocks(reference.type, 64, 1).data(), n, out.data());
    EXPECT_EQ(fnv(out), reference.hash) << dtype_info(reference.type).name;
  }
}

TEST(Dequant, every_exponent_of_mxfp4_is_exact) {
  for (int e = 0; e < 256; ++e) {
    std::byte block[17] = {static_cast<std::byte>(e), std::byte{0x91}};  // codes 1 and 9: 1 and -1
    float out[32];
    to_f32(DType::kMXFP4, block, 32, out);
    EXPECT_EQ(out[0], std::ldexp(1.0F, e - 128)) << e;
    EXPECT_EQ(out[16], -std::ldexp(1.0F, e - 128)) << e;
    EXPECT_EQ(out[1], 0.0F) << e;
  }
}

TEST(Dequant, float_formats_survive_a_round_trip_and_keep_nan) {
  const std::vector<float> values = {0.0f,  -0.0f,    1.0f,
                                     -1.5f, 0x1p-24f, std::numeric_limits<float>::infinity()};
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    std::vector<std::byte> bytes(dtype_bytes(type, values.size()));
    std::vector<float> back(values.size());
    from_f32(type, values.data(), values.size(), bytes.data());
    to_f32(type, bytes.data(), values.size(), back.data());
    EXPECT_EQ(std::memcmp(back.data(), values.data(), values.size() * 4), 0)
        << dtype_info(type).name;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    from_f32(type, &nan, 1, bytes.data());
    to_f32(type, bytes.data(), 1, back.data());
    EXPECT_TRUE(std::isnan(back[0])) << dtype_info(type).name;
  }
}

TEST(Dequant, static_codes_are_rounded_to_even_and_cut) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> in = {0,
                                 0.5F,
                                 1.5F,
                                 -2.5F,
                                 126.6F,
                                 -126.6F,
                                 40000,
                                 -1e30F,
                                 inf,
                                 -inf,
                                 std::numeric_limits<float>::quiet_NaN()};
  const std::vector<float> bytes = {0, 0, 2, -2, 127, -127, 127, -127, 127, -127, -127};
  const std::vector<float> words = {0, 0, 2, -2, 127, -127, 32767, -32767, 32767, -32767, -32767};
  for (const auto& [type, codes] : {std::pair{DType::kStatic8, bytes}, {DType::kStatic16, words}}) {
    std::vector<std::byte> row(dtype_bytes(type, in.size()));
    std::vector<float> out(in.size());
    from_f32(type, in.data(), in.size(), row.data());
    to_f32(type, row.data(), in.size(), out.data());
    EXPECT_EQ(out, codes) << dtype_info(type).name;
  }
}

TEST(Dequant, every_half_survives_the_way_through_float) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<uint16_t>(i);
    if ((half & 0x7c00) != 0x7c00 || (half & 0x3ff) == 0) {
      ASSERT_EQ(f32_to_f16(f16_to_f32(half)), half);
    } else {
      ASSERT_TRUE(std::isnan(f16_to_f32(half)));
    }
    if ((half & 0x7f80) != 0x7f80) {
      ASSERT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
    }
  }
}

TEST(Dequant, from_f32_rounds_ties_to_even) {
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(f32_to_f16(1.0f + 0x3p-11f), 0x3c02);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1.0f + 0x3p-8f), 0x3f82);
}

TEST(Dequant, part_of_a_block_and_writing_a_block_format_are_bugs) {
  std::byte block[34];
  float out[32];
  EXPECT_THROW(to_f32(DType::kQ8_0, block, 31, out), base::Bug);
  EXPECT_THROW(from_f32(DType::kQ8_0, out, 32, block), base::Bug);
}

}  // namespace
}  // namespace kvick::kernels
