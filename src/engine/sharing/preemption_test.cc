#include "engine/sharing/preemption.h"

#include <gtest/gtest.h>

namespace kvick::engine {
namespace {

TEST(Preemption, TakesTheOneThatLosesLeastPerByteOfTheLowestPriority) {
  const Candidate all[] = {
      {.priority = 1, .freed_bytes = 1000, .recompute_seconds = 0.001, .swap_seconds = {}},
      {.priority = 0, .freed_bytes = 1000, .recompute_seconds = 0.5, .swap_seconds = {}},
      {.priority = 0, .freed_bytes = 4000, .recompute_seconds = 1.0, .swap_seconds = {}},
      {.priority = 0, .freed_bytes = 4000, .recompute_seconds = 9.0, .swap_seconds = 0.1},
      {.priority = -1, .freed_bytes = 0, .recompute_seconds = 0, .swap_seconds = {}}};
  EXPECT_EQ(victim_of(all), 3u);
  EXPECT_EQ(victim_of(std::span(all).first(3)), 2u);
  EXPECT_EQ(victim_of(std::span(all).first(1)), 0u);
  EXPECT_EQ(victim_of(std::span(all).last(1)), std::nullopt);
}

TEST(Preemption, MovesRowsOnlyWhereThatIsCheaper) {
  const Candidate slow_disk = {
      .priority = 0, .freed_bytes = 1, .recompute_seconds = 1, .swap_seconds = 2};
  const Candidate fast_disk = {
      .priority = 0, .freed_bytes = 1, .recompute_seconds = 1, .swap_seconds = 0.5};
  EXPECT_EQ(slow_disk.seconds(), 1);
  EXPECT_EQ(fast_disk.seconds(), 0.5);
}

}  // namespace
}  // namespace kvick::engine
