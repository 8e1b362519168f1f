#include "lab/core/trend.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace kvick::lab {
namespace {

TEST(Trend, FindsALineThroughPointsThatLieOnIt) {
  const std::vector<double> x = {1, 2, 4, 8}, y = {5, 7, 11, 19};
  const Trend trend = trend_of(x, y);
  EXPECT_NEAR(trend.at_zero, 3, 1e-12);
  EXPECT_NEAR(trend.slope, 2, 1e-12);
  EXPECT_NEAR(trend.slope_error, 0, 1e-12);
  EXPECT_FALSE(trend.within_noise());
}

// By hand: y = 0.5 + 0.8 x leaves residuals of -0.3, 0.9, -0.9 and 0.3, and the squared deviations
// of x from its mean sum to 5, so the error is sqrt(1.8 / 2 / 5).
TEST(Trend, SaysHowSureTheSlopeIs) {
  const std::vector<double> x = {1, 2, 3, 4}, y = {1, 3, 2, 4};
  const Trend trend = trend_of(x, y);
  EXPECT_NEAR(trend.at_zero, 0.5, 1e-12);
  EXPECT_NEAR(trend.slope, 0.8, 1e-12);
  EXPECT_NEAR(trend.slope_error, std::sqrt(0.18), 1e-12);
  EXPECT_TRUE(trend.within_noise());
}

TEST(Trend, OfTooLittleIsNoTrend) {
  const std::vector<double> same = {2, 2, 2}, y = {1, 2, 3}, two = {1, 2};
  EXPECT_EQ(trend_of(same, y).slope, 0);
  EXPECT_EQ(trend_of(same, y).slope_error, 0);
  EXPECT_EQ(trend_of(two, two).slope_error, 0);
  EXPECT_EQ(trend_of({}, {}).slope, 0);
}

}  // namespace
}  // namespace kvick::lab
