#include "lab/measure/step_times.h"

#include <gtest/gtest.h>

namespace kvick::lab {
namespace {

// A run that grows every `growth` tokens and compiles every `product` tokens; times are binary
// fractions, so sums are exact.
struct MadeRun {
  uint32_t growth, product;
  StepTime step(uint32_t token) const {
    const bool grew = (token - 1) % growth == 0, compiled = (token - 1) % product == 0;
    return {.token = token,
            .grew = grew,
            .begin = grew ? 4.0 : 0.25,
            .forward = grew ? 2.5 : 2.0,  // first touches of memory cost time
            .commit = 0.125,
            .compile = compiled ? 8.0 : 0.0};
  }
  Interval around(uint32_t every, uint32_t token) const {
    const uint32_t first = (token - 1) / every * every + 1;
    return {.first = first, .last = first + every - 1};
  }
  // Estimates a step at that depth from a few timed steps.
  StepTime sampled(uint32_t depth) const {
    const Served served = {.growth = around(growth, depth + 1),
                           .product = around(product, depth + 1)};
    std::vector<StepTime> times;
    for (const uint32_t token :
         tokens_to_time(served, true, {.first = depth + 1, .last = depth + 4}))
      times.push_back(step(token));
    return share_of(times, served, depth);
  }
};

TEST(StepTimes, SampleWhatTheSumOfAllStepsIs) {
  constexpr uint32_t kTokens = 256;
  for (const MadeRun run : {MadeRun{1, 1}, {16, 64}, {64, 64}, {256, 256}, {32, 1}, {2, 4}}) {
    StepTime all;
    for (uint32_t token = 1; token <= kTokens; ++token) {
      const StepTime step = run.step(token);
      all.begin += step.begin;
      all.forward += step.forward;
      all.commit += step.commit;
      all.compile += step.compile;
    }
    for (const uint32_t depth : {0U, 1U, 14U, 16U, 62U, 64U, 100U, 250U}) {
      const StepTime step = run.sampled(depth);
      EXPECT_DOUBLE_EQ(kTokens * step.begin, all.begin) << run.growth << " at " << depth;
      EXPECT_DOUBLE_EQ(kTokens * step.forward, all.forward) << run.growth << " at " << depth;
      EXPECT_DOUBLE_EQ(kTokens * step.commit, all.commit) << run.growth << " at " << depth;
      EXPECT_DOUBLE_EQ(kTokens * step.compile, all.compile) << run.growth << " at " << depth;
    }
  }
}

TEST(StepTimes, DoNotChargeAGrowthByOneSlowStepAfterIt) {
  const MadeRun run = {.growth = 64, .product = 64};
  const Served served = {.growth = {.first = 65, .last = 128},
                         .product = {.first = 65, .last = 128}};
  std::vector<StepTime> times;
  for (const uint32_t token : tokens_to_time(served, true, {.first = 101, .last = 104}))
    times.push_back(run.step(token));
  const StepTime quiet = share_of(times, served, 100);
  times[1].forward += 1000;
  EXPECT_EQ(share_of(times, served, 100).forward, quiet.forward);
}

TEST(StepTimes, AreOfTheGrowthThoseAfterItTheProductAndTheDepth) {
  const Served served = {.growth = {.first = 33, .last = 48}, .product = {.first = 1, .last = 64}};
  EXPECT_EQ(tokens_to_time(served, true, {.first = 40, .last = 42}),
            (std::vector<uint32_t>{1, 33, 34, 35, 36, 40, 41, 42}));
  EXPECT_EQ(tokens_to_time(served, false, {.first = 34, .last = 35}),
            (std::vector<uint32_t>{33, 34, 35, 36}));
  const Served short_lived = {.growth = {.first = 33, .last = 34}, .product = {}};
  EXPECT_EQ(tokens_to_time(short_lived, false, {.first = 34, .last = 35}),
            (std::vector<uint32_t>{33, 34, 35}));
}

}  // namespace
}  // namespace kvick::lab
