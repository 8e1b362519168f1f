#include "engine/sharing/pace.h"

#include <gtest/gtest.h>

namespace kvick::engine {
namespace {

// Returns the seconds that a made-up machine takes for a step.
double machine(uint32_t answers, uint32_t prompt) {
  return (answers > 0 ? 0.008 : 0) + 0.0002 * answers + 0.0005 * prompt;
}

constexpr uint64_t kFew = 50;  // waiting prompt tokens

// Expects the 30 ms that a step may take, or less by at most the time of a tile of tokens.
void expect_short(double seconds) {
  EXPECT_LE(seconds, 0.031);
  EXPECT_GE(seconds, 0.03 - 16 * 0.0005 - 0.001);
}

TEST(Pace, KeepsStepsAsShortAsAskedOnceItHasSeenAFew) {
  Pace pace(0.03, 512);
  EXPECT_EQ(pace.prompt_tokens(0, kFew), 512u);
  for (int i = 0; i < 30; ++i) {
    pace.observe(8, 0, machine(8, 0));
    const uint32_t n = pace.prompt_tokens(8, kFew);
    pace.observe(8, n, machine(8, n));
  }
  expect_short(machine(8, pace.prompt_tokens(8, kFew)));
  EXPECT_NEAR(pace.seconds_per_prompt_token(), 0.0005, 0.00005);
}

TEST(Pace, TakesAllThatMayBeWhenNoAnswerWaitsAndNeverTooLittle) {
  Pace pace(0.001, 256);
  for (int i = 0; i < 30; ++i) pace.observe(32, 64, 0.06);
  EXPECT_EQ(pace.prompt_tokens(32, kFew), Pace::kFewest);
  EXPECT_EQ(pace.prompt_tokens(0, kFew), 256u);
  EXPECT_EQ(pace.prompt_tokens(1000, kFew), Pace::kFewest);
}

TEST(Pace, FindsBackWhenAnswersHaveNotBeenAloneForLong) {
  Pace pace(0.03, 512);
  for (int i = 0; i < 50; ++i) {
    const uint32_t n = pace.prompt_tokens(8, kFew);
    pace.observe(8, n, machine(8, n));
  }
  expect_short(machine(8, pace.prompt_tokens(8, kFew)));
}

TEST(Pace, FillsTheKernelsTiles) {
  Pace pace(0.03, 512);
  pace.observe(1, 64, machine(1, 64));
  for (uint32_t answers = 1; answers < 40; ++answers) {
    EXPECT_EQ((answers + pace.prompt_tokens(answers, kFew)) % 16, 0U) << answers;
    pace.observe(answers, 64, machine(answers, 64));
  }
}

// A machine that stands still now and then, as shared machines do, does not count as slow.
TEST(Pace, IsNotPutOffByAStepThatWasHeldUp) {
  Pace pace(0.03, 512);
  for (int i = 0; i < 200; ++i) {
    const uint32_t n = pace.prompt_tokens(8, kFew);
    pace.observe(8, n, i % 20 == 0 ? 1.0 : machine(8, n));
  }
  EXPECT_GE(pace.prompt_tokens(8, kFew), 24U);
}

// Eight prompts of 200 tokens take 0.8 s, a quarter of which is 0.2 s.
TEST(Pace, TakesLongerStepsWhileManyPromptTokensWait) {
  Pace pace(0.03, 4096);
  for (int i = 0; i < 30; ++i) {
    pace.observe(8, 0, machine(8, 0));
    pace.observe(8, 48, machine(8, 48));
  }
  const auto seconds = [&](uint64_t waiting) { return machine(8, pace.prompt_tokens(8, waiting)); };
  expect_short(seconds(kFew));
  EXPECT_NEAR(seconds(1600), 0.2, 0.02);
  EXPECT_NEAR(seconds(1'000'000), Pace::kLongestStep, 0.02);
}

// Here 32 answers take 0.04 s, more than a step should.
TEST(Pace, GivesPromptsHalfOfTheTimeThatAnswersTakeLong) {
  Pace pace(0.03, 4096);
  const auto slow = [](uint32_t answers, uint32_t prompt) {
    return 0.001 * answers + 0.0005 * prompt + 0.008;
  };
  for (int i = 0; i < 30; ++i) {
    pace.observe(32, 0, slow(32, 0));
    pace.observe(32, 48, slow(32, 48));
  }
  EXPECT_NEAR(slow(32, pace.prompt_tokens(32, kFew)), 2 * slow(32, 0), 0.01);
}

// Small steps cost more per token, but a further token costs less, so larger steps are tried again.
TEST(Pace, LeavesSmallStepsAgainWhenTheMachineIsFasterThanItWas) {
  Pace pace(0.03, 512);
  for (int i = 0; i < 50; ++i) pace.observe(8, 16, 4 * machine(8, 16));
  EXPECT_LE(pace.prompt_tokens(8, kFew), 24U);
  for (int i = 0; i < 100; ++i) {
    const uint32_t n = pace.prompt_tokens(8, kFew);
    pace.observe(8, n, machine(8, n));
  }
  expect_short(machine(8, pace.prompt_tokens(8, kFew)));
}

}  // namespace
}  // namespace kvick::engine
