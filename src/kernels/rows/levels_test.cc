#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "kernels/formats/cache_row.h"

namespace kvick::kernels {
namespace {

std::vector<float> stored(DType type, const std::vector<float>& x) {
  std::vector<std::byte> row(dtype_bytes(type, x.size()));
  from_f32(type, x.data(), x.size(), row.data());
  std::vector<float> out(x.size());
  to_f32(type, row.data(), x.size(), out.data());
  return out;
}

// Returns the mean square error of storing a row of normal numbers, whose mean square is 1.
double lost(DType type) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(6400);
  for (float& e : x) e = normal(random);
  const std::vector<float> out = stored(type, x);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::pow(x[i] - out[i], 2);
  return sum / static_cast<double>(x.size());
}

TEST(CacheRow, LevelsLoseLittleOfAGaussian) {
  // Four bits with a scale for the largest of 32 lose 0.006. Lloyd and Max, with one scale for all
  // rows, lose 0.0345 and 0.1175.
  EXPECT_LT(lost(DType::kQ4), 0.008);
  EXPECT_LT(lost(DType::kQ3), 0.0345);
  EXPECT_LT(lost(DType::kQ2), 0.1175);
}

TEST(CacheRow, LevelsTakeTheBytesThatTheySay) {
  EXPECT_EQ(dtype_bytes(DType::kQ3, 64), 28U);
  EXPECT_EQ(dtype_bytes(DType::kQ2, 64), 20U);
  EXPECT_EQ(code_bytes(DType::kQ3, 64), 24U);
  EXPECT_EQ(code_bytes(DType::kQ2, 64), 16U);
}

TEST(CacheRow, EachCodeStandsForItsLevel) {
  for (const DType type : {DType::kQ3, DType::kQ2}) {
    const LevelTable table = level_table(type);
    std::vector<std::byte> row(dtype_bytes(type, 64));
    uint8_t codes[2 * kRowGroup];
    for (uint32_t i = 0; i < 2 * kRowGroup; ++i)
      codes[i] = static_cast<uint8_t>((i * 5 + i / kRowGroup) % (2U * table.magnitudes));
    const size_t bytes = code_bytes(type, kRowGroup);
    pack_levels(type, codes, row.data());
    pack_levels(type, codes + kRowGroup, row.data() + bytes);
    const uint16_t scales[2] = {f32_to_f16(0.5F), f32_to_f16(2)};
    std::copy_n(reinterpret_cast<const std::byte*>(scales), 4, row.data() + 2 * bytes);
    std::vector<float> out(64);
    to_f32(type, row.data(), 64, out.data());
    for (uint32_t i = 0; i < 64; ++i) {
      const float level = table.magnitude[codes[i] % table.magnitudes];
      const float sign = codes[i] < table.magnitudes ? 1.0F : -1.0F;
      EXPECT_EQ(out[i], sign * level * (i < 32 ? 0.5F : 2.0F)) << i;
    }
  }
}

TEST(CacheRow, GroupsOfZerosAndOfTinyNumbersBecomeZeros) {
  for (const DType type : {DType::kQ3, DType::kQ2})
    for (const float x : {0.0F, -0.0F, 1e-42F, -1e-35F})
      for (const float out : stored(type, std::vector<float>(32, x))) EXPECT_EQ(out, 0) << x;
}

TEST(CacheRow, AGroupWithWhatNoScaleHoldsBecomesNaN) {
  for (const DType type : {DType::kQ3, DType::kQ2})
    for (const float wrong :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38F}) {
      std::vector<float> x(64, 1);
      x[40] = wrong;
      const std::vector<float> out = stored(type, x);
      for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(out[i]), i >= 32) << wrong << " " << i;
    }
}

}  // namespace
}  // namespace kvick::kernels
