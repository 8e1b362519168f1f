// What remains in the slower tier with a window.

#include <gtest/gtest.h>

#include "kv/strategy/checked_store.h"
#include "kv/testing/store_and_twin.h"
#include "kv/tier/test_tier.h"
#include "kv/tier/tiered.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kWindow = 20, kUnit = 8;  // tokens
constexpr Shape kShape = {
    .layers = 2, .kv_heads = 2, .head_dim = 16, .max_tokens = 400, .window = kWindow};

struct WindowOfTier {
  WindowOfTier() : pair("tiered", kShape) {
    auto owned = std::make_unique<MadeTier>();
    tier = owned.get();
    const TierOptions options = read_tier(parse_spec("ram:unit=8").value()).value();
    pair.store = make_tiered_store(test_setup(kShape), options, std::move(owned)).value();
  }
  // Returns the number of units in the tier.
  uint64_t units() const {
    const uint64_t bytes = kUnit * kShape.token_bytes();
    return pair.store->usage().slow_bytes / ((bytes + kTierPage - 1) / kTierPage * kTierPage);
  }
  Pair pair;
  MadeTier* tier;
};

TEST(TieredWindow, UnitsOutsideItAreGivenBack) {
  WindowOfTier t;
  const SeqId a = t.pair.open();
  for (uint32_t i = 0; i < 200; ++i) {
    t.pair.add(a, 1 + i % 3 / 2);
    EXPECT_LE(t.units(), (kWindow - 2) / kUnit + 1) << i;
    t.pair.expect_contents();
  }
  const SeqId b = t.pair.store->fork(a).value();
  t.pair.twin[b] = t.pair.twin[a];
  t.pair.close(a);
  t.pair.add(b, 9);
  t.pair.expect_contents();
  t.pair.close(b);
  EXPECT_EQ(t.units(), 0u);
  EXPECT_EQ(t.tier->reserved_pages(), 0u);
}

TEST(TieredWindow, OfALongPromptOnlyTheUnitsWithinItAreWritten) {
  WindowOfTier t;
  const SeqId a = t.pair.open();
  t.pair.add(a, 203);
  // Rows from 184 on are visible; 200 to 202 are in the last unit, which is not full.
  EXPECT_EQ(t.pair.store->usage().slow_written_bytes, 2 * kUnit * kShape.token_bytes());
  EXPECT_EQ(t.units(), 2u);
  t.pair.expect_contents();
}

TEST(TieredWindow, AUnitThatIsStillWrittenIsGivenBackLater) {
  WindowOfTier t;
  const SeqId a = t.pair.open();
  bool hangs = true;
  t.tier->hangs = [&](const Transfer& transfer) { return hangs && transfer.way == Way::kWrite; };
  for (uint32_t i = 0; i < 60; ++i) t.pair.add(a, 1);
  EXPECT_EQ(t.units(), 7u);
  hangs = false;
  t.pair.add(a, 1);
  EXPECT_LE(t.units(), (kWindow - 2) / kUnit + 1);
  t.pair.expect_contents();
}

}  // namespace
}  // namespace kvick::kv::test
