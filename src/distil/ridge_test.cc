// Compares weights solved from sums with their definition.

#include "distil/ridge.h"

#include <gtest/gtest.h>
#include <random>

namespace kvick::distil {
namespace {

constexpr uint32_t kInputs = 21, kTargets = 3, kSamples = 300, kStride = 25;

struct Made {
  std::vector<float> x, y;
  explicit Made(double noise) : x(size_t{kSamples} * kStride), y(size_t{kSamples} * kTargets) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (float& one : x) one = normal(random) + 0.5F;
    for (uint32_t s = 0; s < kSamples; ++s)
      for (uint32_t t = 0; t < kTargets; ++t) {
        double sum = 3.0 - t;
        for (uint32_t i = 0; i < kInputs; ++i) sum += weight(t, i) * x[s * kStride + i];
        y[s * kTargets + t] = static_cast<float>(sum + noise * normal(random));
      }
  }
  static double weight(uint32_t t, uint32_t i) { return (t + 1) * 0.25 - 0.1 * (i % 7); }
};

TEST(Ridge, FindsTheWeightsThatMadeItsTargets) {
  const Made made(0);
  Ridge ridge(kInputs, kTargets);
  const kernels::Table& kernels = kernels::table(base::best_isa());
  ridge.add(kernels, made.x.data(), kStride, made.y.data(), 100);
  ridge.add(kernels, made.x.data() + 100 * kStride, kStride, made.y.data() + 100 * kTargets, 200);
  const std::vector<float> w = ridge.solve(1e-9);
  ASSERT_EQ(w.size(), (kInputs + 1) * kTargets);
  for (uint32_t t = 0; t < kTargets; ++t) {
    for (uint32_t i = 0; i < kInputs; ++i)
      EXPECT_NEAR(w[t * (kInputs + 1) + i], Made::weight(t, i), 1e-4);
    EXPECT_NEAR(w[t * (kInputs + 1) + kInputs], 3.0 - t, 1e-3);
  }
}

// At the minimum the gradient is zero: X^T (X w - y) + penalty w = 0.
TEST(Ridge, NoOtherWeightsWouldDoBetter) {
  const Made made(1);
  const double penalty = 0.3;
  Ridge ridge(kInputs, kTargets);
  ridge.add(kernels::table(base::best_isa()), made.x.data(), kStride, made.y.data(), kSamples);
  const std::vector<float> w = ridge.solve(penalty);
  const auto input = [&](uint32_t s, uint32_t i) -> double {
    return i == kInputs ? 1.0 : made.x[s * kStride + i];
  };
  double mean_square = 0;
  for (uint32_t s = 0; s < kSamples; ++s)
    for (uint32_t i = 0; i <= kInputs; ++i) mean_square += input(s, i) * input(s, i);
  mean_square /= kInputs + 1;
  for (uint32_t t = 0; t < kTargets; ++t)
    for (uint32_t i = 0; i <= kInputs; ++i) {
      double slope = penalty * mean_square * w[t * (kInputs + 1) + i];
      for (uint32_t s = 0; s < kSamples; ++s) {
        double error = -made.y[s * kTargets + t];
        for (uint32_t k = 0; k <= kInputs; ++k) error += w[t * (kInputs + 1) + k] * input(s, k);
        slope += error * input(s, i);
      }
      EXPECT_NEAR(slope, 0, 0.02);
    }
}

TEST(Ridge, OfNothingIsNothing) {
  Ridge ridge(4, 2);
  EXPECT_EQ(ridge.solve(1e-4), std::vector<float>(10));
  EXPECT_EQ(Ridge::bytes(4, 2), (15 + 10) * sizeof(double));
}

// Two inputs are always equal, so only the penalty decides how they share the weight.
TEST(Ridge, InputsThatAreAlikeShareAWeight) {
  std::vector<float> x, y;
  for (int s = 0; s < 50; ++s) {
    x.insert(x.end(), {static_cast<float>(s), static_cast<float>(s)});
    y.push_back(static_cast<float>(2 * s + 1));
  }
  Ridge ridge(2, 1);
  ridge.add(kernels::table(base::best_isa()), x.data(), 2, y.data(), 50);
  const std::vector<float> w = ridge.solve(1e-6);
  EXPECT_NEAR(w[0], 1, 1e-2);
  EXPECT_NEAR(w[1], 1, 1e-2);
  EXPECT_NEAR(w[2], 1, 0.1);
}

}  // namespace
}  // namespace kvick::distil
