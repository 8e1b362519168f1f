#include "engine/core/step_cost.h"

#include <gtest/gtest.h>
#include <random>

namespace kvick::engine {
namespace {

TEST(StepCost, IsWhatWasSeenAndInProportionBetween) {
  StepCost cost;
  EXPECT_EQ(cost.seconds({3}), 0);
  cost.observe({2}, 1.0);
  EXPECT_LT(cost.seconds({1}), 1.0);
  EXPECT_GT(cost.seconds({3}), 1.0);
  cost.observe({6}, 3.0);
  EXPECT_DOUBLE_EQ(cost.seconds({4}), 2.0);
  EXPECT_DOUBLE_EQ(cost.seconds({6}), 3.0);
  for (int i = 0; i < 100; ++i) cost.observe({6}, 2.0);
  EXPECT_NEAR(cost.seconds({6}), 2.0, 0.01);
  cost.observe({6}, 1000.0);
  EXPECT_LT(cost.seconds({6}), 2.2) << "an interruption";
}

TEST(StepCost, TakesTheQuickestOfTheFirstStepsAndTriesThemAgainSoon) {
  StepCost cost;
  for (int i = 0; i < 10; ++i) cost.observe({1}, 1.0);
  cost.observe({3}, 5.0);  // slow, since memory grows
  EXPECT_DOUBLE_EQ(cost.seconds({3}), 5.0);
  for (int i = 0; i < 64; ++i) cost.observe({1}, 1.0);
  EXPECT_LT(cost.seconds({3}), 1.3) << "not known any more";
  cost.observe({3}, 1.4);
  EXPECT_DOUBLE_EQ(cost.seconds({3}), 1.4);
  cost.observe({3}, 1.6);
  EXPECT_DOUBLE_EQ(cost.seconds({3}), 1.4);
  for (int i = 0; i < 255; ++i) cost.observe({1}, 1.0);
  EXPECT_DOUBLE_EQ(cost.seconds({3}), 1.4) << "seen three times";
  cost.observe({1}, 1.0);
  EXPECT_LT(cost.seconds({3}), 1.3);
}

TEST(StepCost, CountsTheRowsOfTheCacheThatAreRead) {
  StepShape shape;
  shape.add(1, 100);
  shape.add(17, 200);
  EXPECT_EQ(shape.rows, 18u);
  EXPECT_DOUBLE_EQ(shape.attended, 100 + 2 * 200);
}

TEST(StepCost, FollowsTheLengthOfTexts) {
  // 2 ms, plus 4 us per cache row and 0.5 ms per row of the step, with 5% of noise.
  const auto truth = [](const StepShape& s) { return 2e-3 + 4e-6 * s.attended + 5e-4 * s.rows; };
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  StepCost cost;
  for (const uint32_t depth : {100u, 900u, 400u})
    for (uint32_t i = 0; i < 300; ++i) {
      StepShape shape;
      shape.add(i % 4 == 3 ? 5 : 1, depth + i);
      cost.observe(shape, truth(shape) * noise(random));
    }
  for (const uint32_t depth : {50u, 300u, 1000u})
    for (const uint32_t fresh : {1u, 3u, 5u}) {
      StepShape shape;
      shape.add(fresh, depth);
      EXPECT_NEAR(cost.seconds(shape) / truth(shape), 1, 0.15) << depth << " " << fresh;
    }
}

TEST(StepCost, PresumesThatRowsAreCheapForOneSequenceAndDearBesideMany) {
  StepCost one, many;
  one.observe({1}, 1.0);
  many.observe({16}, 1.0);
  EXPECT_NEAR(one.seconds({2}), 1.2 / 1.1, 1e-9);
  EXPECT_NEAR(one.seconds({9}), 1.9 / 1.1, 1e-9);
  EXPECT_NEAR(many.seconds({32}), 4.2 / 2.6, 1e-9);
  EXPECT_NEAR(many.seconds({1}), 1.1 / 2.6, 1e-9);
  many.observe({32}, 1.8);
  EXPECT_NEAR(many.seconds({24}), 1.4, 1e-9);
}

TEST(StepCost, IsNeverLessForMoreRowsHoweverTheyWereMeasured) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> noise(0.8, 1.2);
  StepCost cost;
  double before = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto rows = static_cast<uint32_t>(1 + random() % 300);
    cost.observe({rows}, (1 + 0.01 * rows) * noise(random));
  }
  for (uint32_t rows = 1; rows <= 300; ++rows) {
    const double seconds = cost.seconds({rows});
    EXPECT_GE(seconds, before) << rows;
    EXPECT_NEAR(seconds / (1 + 0.01 * rows), 1, 0.3) << rows;
    before = seconds;
  }
}

TEST(StepCost, TriesAgainWhatWasLongAgo) {
  StepCost cost;
  cost.observe({1}, 1.0);
  cost.observe({5}, 50.0);
  EXPECT_DOUBLE_EQ(cost.seconds({5}), 50.0);
  for (uint64_t i = 0; i <= StepCost::kForgotten; ++i) cost.observe({1}, 1.0);
  EXPECT_LT(cost.seconds({5}), 5.0);
  // Without a newer measurement of so few rows, the expired one still counts.
  for (uint64_t i = 0; i <= StepCost::kForgotten; ++i) cost.observe({3}, 2.0);
  EXPECT_DOUBLE_EQ(cost.seconds({1}), 1.0);
}

}  // namespace
}  // namespace kvick::engine
