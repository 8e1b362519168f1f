#include "engine/pace.h"

#include <gtest/gtest.h>

namespace kvick::engine {
namespace {

// A machine that takes so long for answers and for each prompt token.
double machine(uint32_t answers, uint32_t prompt) {
  return (answers > 0 ? 0.008 : 0) + 0.0002 * answers + 0.0005 * prompt;
}

TEST(Pace, KeepsStepsAsShortAsAskedOnceItHasSeenAFew) {
  Pace pace(0.03, 512);
  EXPECT_EQ(pace.prompt_tokens(0), 512u);
  for (int i = 0; i < 30; ++i) {
    pace.observe(8, 0, machine(8, 0));
    const uint32_t n = pace.prompt_tokens(8);
    pace.observe(8, n, machine(8, n));
  }
  EXPECT_NEAR(machine(8, pace.prompt_tokens(8)), 0.03, 0.003);
  EXPECT_NEAR(pace.seconds_per_prompt_token(), 0.0005, 0.00005);
}

TEST(Pace, TakesAllThatMayBeWhenNoAnswerWaitsAndNeverTooLittle) {
  Pace pace(0.001, 256);
  for (int i = 0; i < 30; ++i) pace.observe(32, 0, 0.02);
  for (int i = 0; i < 30; ++i) pace.observe(32, 64, 0.06);
  EXPECT_EQ(pace.prompt_tokens(32), Pace::kFewest);
  EXPECT_EQ(pace.prompt_tokens(0), 256u);
  EXPECT_EQ(pace.prompt_tokens(1000), Pace::kFewest);
}

TEST(Pace, FindsBackWhenAnswersHaveNotBeenAloneForLong) {
  Pace pace(0.03, 512);
  for (int i = 0; i < 50; ++i) {
    const uint32_t n = pace.prompt_tokens(8);
    pace.observe(8, n, machine(8, n));
  }
  EXPECT_NEAR(machine(8, pace.prompt_tokens(8)), 0.03, 0.003);
}

}  // namespace
}  // namespace kvick::engine
