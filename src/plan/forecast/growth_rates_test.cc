#include "plan/forecast/growth_rates.h"

#include <gtest/gtest.h>

#include "plan/forecast/test_attention.h"

namespace kvick::plan {
namespace {

TEST(FitLine, FindsTheLineThroughItsPoints) {
  const std::vector<double> x = {1, 2, 4}, y = {5, 7, 11};
  const Line line = fit_line(x, y);
  EXPECT_NEAR(line.at_zero, 3, 1e-12);
  EXPECT_NEAR(line.slope, 2, 1e-12);
}

TEST(FitLine, IsFlatWhereAllPointsHaveOneX) {
  const std::vector<double> x = {2, 2}, y = {3, 5};
  EXPECT_EQ(fit_line(x, y).slope, 0);
  EXPECT_EQ(fit_line(x, y).at_zero, 4);
}

TEST(MeasureGrowth, GivesRatesThatTheModelTakes) {
  Machinery m("upfront", 2);
  kernels::BucketAttention library;
  m.workspace.library = &library;
  const auto rates = measure_growth(m.config, m.setup, m.workspace);
  ASSERT_TRUE(rates.ok());
  EXPECT_GT(rates->copy_bytes_s, 0);
  EXPECT_GT(rates->attention_bytes_s, 0);
  EXPECT_GE(rates->growth_s, 0);
  const uint32_t growths =
      kv::best_growths(Machinery::kMaxTokens, m.setup.shape.token_bytes(), *rates);
  EXPECT_GE(growths, 1U);
  EXPECT_LE(growths, Machinery::kMaxTokens);
}

TEST(MeasureGrowth, ChargesNothingForSpareRowsThatOurKernelsPassOver) {
  Machinery m("upfront", 1);
  const auto rates = measure_growth(m.config, m.setup, m.workspace);
  ASSERT_TRUE(rates.ok());
  EXPECT_EQ(rates->attention_bytes_s, 0);
}

TEST(MeasureGrowth, NeedsNoRangesOfStaticTypes) {
  Machinery m("upfront", 1);
  m.setup.shape.k_type = kernels::DType::kStatic8;
  m.setup.shape.v_type = kernels::DType::kStatic16;
  const auto rates = measure_growth(m.config, m.setup, m.workspace);
  ASSERT_TRUE(rates.ok()) << rates.error().message;
  EXPECT_GT(rates->copy_bytes_s, 0);
}

TEST(MeasureGrowth, SaysWhenThereIsNoRoom) {
  Machinery m("upfront", 1);
  m.setup.limits.max_bytes = 100;
  const auto rates = measure_growth(m.config, m.setup, m.workspace);
  ASSERT_FALSE(rates.ok());
  EXPECT_NE(rates.error().message.find("no room to measure"), std::string::npos);
}

}  // namespace
}  // namespace kvick::plan
