#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

struct Weights {
  std::vector<float> of;     // weight of each token
  std::vector<double> sums;  // sums of blocks
  bool operator==(const Weights&) const = default;
};

Weights weigh(base::Isa isa, std::vector<float> logits, float scale) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> sums((logits.size() + kWeightBlock - 1) / kWeightBlock + 1, -1);
  logits.push_back(77);  // must stay as it is
  table(isa).weigh_tokens(logits.data(), logits.size() - 1, highest, scale, sums.data());
  EXPECT_EQ(logits.back(), 77);
  EXPECT_EQ(sums.back(), -1);
  logits.pop_back();
  sums.pop_back();
  return {std::move(logits), std::move(sums)};
}

std::vector<float> random_logits(size_t n, float spread) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = normal(random);
  if (n > 20) logits[3] = -INFINITY;
  return logits;
}

TEST(TokenWeights, AreRoundedExponentialsWithExactSums) {
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    for (const size_t n : {1, 2, 15, 16, 17, 63, 64, 65, 1000})
      for (const float scale : {0.01F, 1.0F, 30.0F}) {
        const auto logits = random_logits(n, 3);
        const double highest = *std::max_element(logits.begin(), logits.end());
        const Weights weights = weigh(isa, logits, scale);
        std::vector<double> sums(weights.sums.size(), 0);
        for (size_t i = 0; i < n; ++i) {
          const double e = std::exp(double{scale} * (logits[i] - highest));
          ASSERT_NEAR(weights.of[i], e, 2e-6 * e + 0x1p-35) << base::isa_name(isa);
          const double steps = double{weights.of[i]} * 0x1p34;
          ASSERT_EQ(steps, std::floor(steps));
          sums[i / kWeightBlock] += double{weights.of[i]};
        }
        ASSERT_EQ(weights.sums, sums) << n;
      }
  }
}

TEST(TokenWeights, AreTheSameBitsUnderEveryInstructionSet) {
  for (const float spread : {0.1F, 2.0F, 20.0F})
    for (const float scale : {1.0F, 1.7F, 1e30F, std::numeric_limits<float>::max()}) {
      const auto logits = random_logits(5001, spread);
      const Weights expected = weigh(base::Isa::kScalar, logits, scale);
      for (const base::Isa isa : base::kIsas) {
        if (!base::isa_supported(isa)) continue;
        EXPECT_TRUE(weigh(isa, logits, scale) == expected) << base::isa_name(isa);
      }
    }
}

}  // namespace
}  // namespace kvick::kernels
