#include "model/blocks/activation.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace kvick::model {
namespace {

double gelu_of(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Activation, GeluIsItsDefinitionOverTheWholeRange) {
  const kernels::Table& kernels = kernels::table(base::best_isa());
  for (const size_t n : {1, 7, 256, 600}) {
    std::vector<float> gate(n), up(n), y(n + 1, 77);
    for (size_t i = 0; i < n; ++i) {
      gate[i] = -12 + 24 * static_cast<float>(i) / static_cast<float>(n);
      up[i] = 3 - static_cast<float>(i % 11);
    }
    if (n > 4) gate[0] = -200, gate[1] = 200, gate[2] = -1e10F, gate[3] = 0;
    gelu_mul(kernels, gate.data(), up.data(), n, y.data());
    std::vector<float> alone = gate;
    gelu(kernels, alone.data(), n);
    for (size_t i = 0; i < n; ++i) {
      const double expected = gelu_of(gate[i]), near = 2e-6 * std::abs(expected) + 1e-9;
      EXPECT_NEAR(y[i], expected * up[i], near * 8) << gate[i];
      EXPECT_NEAR(alone[i], expected, near) << gate[i];
    }
    EXPECT_EQ(y[n], 77);
  }
}

TEST(Activation, TheOneOfGptOssIsLimited) {
  const kernels::Table& kernels = kernels::table(base::best_isa());
  std::vector<float> gate = {-30, -1, 0, 1, 6.5F, 7, 9, 50}, up = {-9, -7, 0.5F, 2, 7, 8, -3, 1};
  std::vector<float> y(gate.size());
  gated_oai(kernels, gate.data(), up.data(), gate.size(), y.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double a = std::min(gate[i], 7.0F), b = std::clamp(up[i], -7.0F, 7.0F);
    const double expected = a / (1 + std::exp(-1.702 * a)) * (b + 1);
    EXPECT_NEAR(y[i], expected, 2e-6 * std::abs(expected) + 1e-9) << gate[i];
  }
}

TEST(Activation, SigmoidMulGatesWhateverTheGate) {
  const kernels::Table& kernels = kernels::table(base::best_isa());
  const std::vector<float> gate = {-200, -20, -1e-3F, -1e-12F, 0, 1e-9F, 0.5F, 30, 1e4F};
  std::vector<float> changed = gate, x = {1, -2, 3, 4, 5, -6, 7, 8, 9};
  const std::vector<float> before = x;
  sigmoid_mul(kernels, changed.data(), x.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = before[i] / (1 + std::exp(-double{gate[i]}));
    EXPECT_NEAR(x[i], expected, 1e-6 * std::abs(expected) + 1e-9) << gate[i];
  }
}

TEST(Activation, ReluSquaredIsZeroBelowZero) {
  float x[] = {-2, -0.0F, 0.5F, 3};
  relu_squared(kernels::table(base::best_isa()), x, 3);
  EXPECT_EQ(x[0], 0);
  EXPECT_EQ(x[2], 0.25F);
  EXPECT_EQ(x[3], 3);
}

}  // namespace
}  // namespace kvick::model
