// Limits of the loss by draft tokens, in a simulation whose acceptance rates and costs differ from
// the estimates.

#include "engine/speculation/draft_account.h"

#include <gtest/gtest.h>
#include <random>

#include "engine/core/test_engine.h"
#include "engine/speculation/speculation.h"

namespace kvick::engine {
namespace {

TEST(DraftAccount, IsWhatCameAndWhatWouldHaveCome) {
  DraftAccount account;
  EXPECT_EQ(account.tokens(), DraftAccount::kFirst);
  account.add(3, 1.5);
  EXPECT_DOUBLE_EQ(account.tokens(), DraftAccount::kFirst + 1.5 + 3 * DraftAccount::kAllowance);
  account.add(1, 30);
  EXPECT_LT(account.tokens(), 0);
  account.add(1000, 1);
  EXPECT_EQ(account.tokens(), DraftAccount::kMost);
}

struct World {
  uint32_t lanes = 1;
  double row = 0.1;            // time of a further row, in plain steps
  double believed = 0.8;       // estimated mean chance of a draft token
  double true_share = 1;       // true chance over the estimated one
  double begin = 1, wear = 0;  // time of a plain step at first, and its growth per step
  double drafting = 0;         // time of making draft tokens, in plain steps
};

// Returns tokens per second with draft tokens over tokens per second without, over a few thousand
// steps. stake: tokens that draft tokens may lose; negative: by the account.
double speedup(const World& world, double stake) {
  const auto engine = tiny_engine();
  Speculation speculation(*engine);
  std::mt19937_64 random(17);
  std::uniform_real_distribution<double> uniform(0, 1), noise(0.95, 1.05);
  const PlainStep plain = plain_step(world.lanes, 0);
  double seconds = 0, without = 0, tokens = 0, speed = world.begin;
  for (int i = 0; i < 3000; ++i, speed += world.wear) {
    std::vector<double> chances(4 * world.lanes);
    for (double& chance : chances)
      chance = std::min(0.99, world.believed + 0.2 * (uniform(random) - 0.5));
    const double at_stake = stake < 0 ? speculation.account.tokens() : stake;
    const double drafting =
        may_draft(plain, speculation.cost, at_stake) ? speed * world.drafting : 0;
    if (world.drafting > 0 && drafting == 0) chances.clear();
    speculation.charge(drafting);
    const double least = least_chance(chances, plain, speculation.cost, at_stake);
    uint32_t came = world.lanes;
    StepShape shape = plain.shape;
    for (const double chance : chances) {
      if (chance < least) continue;
      ++shape.rows;
      came += uniform(random) < chance * world.true_share ? 1 : 0;
    }
    const double step = speed * (1 + world.row * (shape.rows - plain.shape.rows)) * noise(random);
    speculation.observe(shape, plain, came, step);
    seconds += step + drafting;
    tokens += came;
    without += speed * came / world.lanes;
  }
  return without / seconds;
}

TEST(DraftAccount, LosesLittleWhateverIsBelieved) {
  const World worlds[] = {
      {.lanes = 1, .row = 0.2, .believed = 0.8, .true_share = 0.1},
      {.lanes = 1, .row = 0.9, .believed = 0.9, .true_share = 0},
      {.lanes = 16, .row = 0.065, .believed = 0.95, .true_share = 0.6},
      {.lanes = 16, .row = 0.045, .believed = 0.9, .true_share = 0.5},
      {.lanes = 8, .row = 0.05, .believed = 0.8, .true_share = 0.4, .begin = 1, .wear = 1e-3},
      {.lanes = 16, .row = 0.065, .believed = 0.3, .drafting = 0.03},
      {.lanes = 1, .row = 0.1, .believed = 0.5, .true_share = 0.2, .drafting = 0.3},
  };
  for (const World& world : worlds) {
    EXPECT_GT(speedup(world, -1), 0.99) << world.lanes << " " << world.row;
    EXPECT_LT(speedup(world, 1e9), 1.0) << "nothing to lose: " << world.lanes << " " << world.row;
  }
}

TEST(DraftAccount, IsNotInTheWayOfWhatPays) {
  const World worlds[] = {{.lanes = 1, .row = 0.12, .believed = 0.6},
                          {.lanes = 1, .row = 0.2, .believed = 0.8},
                          {.lanes = 1, .row = 0.12, .believed = 0.6, .drafting = 0.15},
                          {.lanes = 4, .row = 0.05, .believed = 0.7},
                          {.lanes = 16, .row = 0.02, .believed = 0.8}};
  for (const World& world : worlds) {
    const double free = speedup(world, 1e9);
    EXPECT_GT(free, 1.05) << world.lanes << " " << world.row;
    EXPECT_GT(speedup(world, -1), 0.98 * free) << world.lanes << " " << world.row;
  }
}

}  // namespace
}  // namespace kvick::engine
