#include "kv/stores/growth_model.h"

#include <cmath>
#include <gtest/gtest.h>

namespace kvick::kv {
namespace {

constexpr uint64_t kTokenBytes = 6144;

// Sums equations 1 to 3 step by step, without the time of attention over existing rows.
double naive_seconds(uint32_t tokens, uint32_t growths, const GrowthRates& rates) {
  const uint32_t r = tokens / growths;
  double seconds = 0;
  for (uint32_t i = 0; i < growths; ++i) {
    const double bucket = (i + 1.0) * r * kTokenBytes;
    seconds += bucket / rates.copy_bytes_s + rates.growth_s;
    for (uint32_t step = 0; step < r; ++step)
      seconds += (bucket - (i * r + step + 0.0) * kTokenBytes) / rates.attention_bytes_s;
  }
  return seconds;
}

TEST(GrowthModel, IsTheSumOverGrowthsAndSteps) {
  const GrowthRates rates = {.copy_bytes_s = 5e9, .growth_s = 2e-5, .attention_bytes_s = 2e10};
  for (const uint32_t growths : {1U, 4U, 64U, 512U}) {
    const double naive = naive_seconds(2048, growths, rates);
    // The formula uses N^2/2 for the sum of 1 to N.
    const double half_rows = 2048.0 / 2 * kTokenBytes / rates.attention_bytes_s;
    EXPECT_NEAR(growth_seconds(2048, growths, kTokenBytes, rates), naive - half_rows, naive * 1e-9);
  }
}

TEST(GrowthModel, FindsTheNumberOfGrowthsThatTakesLeast) {
  for (const double copy : {1e9, 5e9, 3e10})
    for (const double growth_s : {0.0, 1e-5, 1e-3})
      for (const uint32_t tokens : {512U, 4096U, 8192U}) {
        const GrowthRates rates = {
            .copy_bytes_s = copy, .growth_s = growth_s, .attention_bytes_s = 1e10};
        uint32_t least = 1;
        for (uint32_t t = 2; t <= tokens; t *= 2)
          if (growth_seconds(tokens, t, kTokenBytes, rates) <
              growth_seconds(tokens, least, kTokenBytes, rates))
            least = t;
        const uint32_t best = best_growths(tokens, kTokenBytes, rates);
        EXPECT_NEAR(growth_seconds(tokens, best, kTokenBytes, rates),
                    growth_seconds(tokens, least, kTokenBytes, rates), 1e-12)
            << copy << " " << tokens;
      }
}

TEST(GrowthModel, GrowsLessOftenWhereAStepAddsSeveralTokens) {
  const GrowthRates rates = {.copy_bytes_s = 1e9, .growth_s = 0, .attention_bytes_s = 1e10};
  // Equation 9: T is proportional to the square root of N/m.
  for (const double m : {2.0, 4.0, 9.0}) {
    EXPECT_NEAR(ideal_growths(4096, kTokenBytes, rates, m),
                ideal_growths(4096, kTokenBytes, rates) / std::sqrt(m), 1e-9);
    const double ideal = ideal_growths(4096, kTokenBytes, rates, m);
    const auto seconds = [&](double t) {
      return growth_seconds(4096, static_cast<uint64_t>(std::lround(t)), kTokenBytes, rates, m);
    };
    EXPECT_LE(seconds(ideal), seconds(ideal * 1.5));
    EXPECT_LE(seconds(ideal), seconds(ideal / 1.5));
  }
}

TEST(GrowthModel, GivesTheFigureOfTheSeed) {
  // C' = 0.1: T = sqrt(0.1 * 512) = 7.2, which the paper rounds to 8.
  const GrowthRates rates = {.copy_bytes_s = 1e9, .growth_s = 0, .attention_bytes_s = 1e10};
  EXPECT_NEAR(ideal_growths(512, kTokenBytes, rates), 7.155, 0.001);
  EXPECT_EQ(best_growths(512, kTokenBytes, rates), 8U);
  EXPECT_EQ(best_growths(2048, kTokenBytes, rates), 16U);
}

TEST(GrowthModel, GrowsWithTheRootOfTheContext) {
  const GrowthRates rates = {.copy_bytes_s = 3e9, .growth_s = 0, .attention_bytes_s = 1e10};
  EXPECT_NEAR(ideal_growths(8192, kTokenBytes, rates) / ideal_growths(512, kTokenBytes, rates), 4,
              1e-9);
}

TEST(GrowthModel, GrowsOnceWhereSpareRowsCostNoTime) {
  EXPECT_EQ(best_growths(8192, kTokenBytes, {.copy_bytes_s = 1e9}), 1U);
}

TEST(GrowthModel, NeverGrowsMoreOftenThanTokensCome) {
  const GrowthRates rates = {.copy_bytes_s = 1e15, .growth_s = 0, .attention_bytes_s = 1};
  EXPECT_EQ(best_growths(100, kTokenBytes, rates), 64U);
  EXPECT_EQ(best_growths(1, kTokenBytes, rates), 1U);
}

}  // namespace
}  // namespace kvick::kv
