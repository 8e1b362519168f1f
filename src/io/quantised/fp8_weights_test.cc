#include "io/quantised/fp8_weights.h"

#include <cmath>
#include <gtest/gtest.h>

#include "io/quantised/test_tensors.h"

namespace kvick::io {
namespace {

// The definition: (-1)^sign * 2^(exponent - 7) * 1.significand, or 2^-6 * 0.significand.
TEST(Fp8Weights, AllCodesAreThoseOfTheDefinition) {
  for (int code = 0; code < 256; ++code) {
    const int exponent = code / 8 % 16;
    const double significand = code % 8 / 8.0;
    const double size =
        exponent == 0 ? significand / 64 : std::exp2(exponent - 7) * (1 + significand);
    const float got = e4m3_to_f32(static_cast<uint8_t>(code));
    if (code % 128 == 127) {
      EXPECT_TRUE(std::isnan(got));
    } else {
      EXPECT_EQ(got, static_cast<float>(code < 128 ? size : -size)) << code;
      EXPECT_EQ(std::signbit(got), code >= 128) << code;
    }
  }
  EXPECT_EQ(e4m3_to_f32(0x7e), 448.0F);
}

TEST(Fp8Weights, AreScaledByTheirBlockAndRoundedOnce) {
  struct {
    std::vector<uint64_t> scales;
    MatrixSize block;                             // according to config.json
    uint64_t block_outputs, block_inputs;         // expected
  } const table[] = {{{3, 4}, {16, 16}, 16, 16},  // the last blocks are incomplete
                     {{2, 5}, {}, 20, 10},       {{40, 1}, {128, 128}, 1, 50},
                     {{40}, {}, 1, 50},          {{1}, {}, 40, 50},
                     {{}, {128, 128}, 40, 50},   {{1, 1}, {128, 128}, 40, 50}};
  for (const auto& [shape, block, block_outputs, block_inputs] : table) {
    TestTensors t;
    const StoredTensor codes = t.random("w", StoredType::kF8E4M3, {40, 50});
    const StoredTensor scales = t.scales("s", shape);
    const auto tensor = fp8_tensor("w", codes, scales, block);
    ASSERT_TRUE(tensor.ok()) << tensor.error().message;
    EXPECT_EQ(tensor->dtype, kernels::DType::kF16);
    const std::vector<float> got = floats_of(*tensor);
    const uint64_t columns = shape.size() == 2 ? shape[1] : 1;
    for (uint64_t i = 0; i < got.size(); ++i) {
      const uint64_t at = i / 50 / block_outputs * columns + i % 50 / block_inputs;
      const float wanted = e4m3_to_f32(std::to_integer<uint8_t>(codes.data[i])) * half(scales, at);
      const float rounded = kernels::f16_to_f32(kernels::f32_to_f16(wanted));
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(got[i]));
      } else {
        ASSERT_EQ(got[i], rounded) << i;
      }
    }
  }
}

TEST(Fp8Weights, ScalesThatDoNotDivideTheMatrixAreRefused) {
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{3, 5}, {41}, {41, 1}, {1, 51}, {40, 50, 1}, {3}}) {
    TestTensors t;
    const StoredTensor codes = t.random("w", StoredType::kF8E4M3, {40, 50});
    const StoredTensor scales = t.scales("s", shape);
    const auto tensor = fp8_tensor("w", codes, scales, {128, 128});
    ASSERT_FALSE(tensor.ok()) << shape.size();
    EXPECT_NE(tensor.error().message.find("test: tensor 's'"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvick::io
