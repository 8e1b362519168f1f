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

TEST(TieredWindow, ThePlannerCountsTheTokenThatSeesTheMostUnits) {
  const uint64_t unit = kUnit * kShape.token_bytes() / (kShape.layers * kShape.kv_heads);
  TierOptions options = read_tier(parse_spec("ram:unit=8").value()).value();
  options.fast_bytes = 9 * unit;
  Pair p("tiered", kShape);
  p.store = make_tiered_store(test_setup(kShape), options, std::make_unique<MadeTier>()).value();
  const SeqId a = p.open();
  while (p.store->length(a) < 24) p.add(a, 1);
  // The four newest units, and three of both heads of a layer: the window begins at row 5.
  ASSERT_EQ(p.begin({{a, 1}}), nullptr);
  kv::Setup setup = test_setup(kShape);
  setup.tier.spec = parse_spec("ram:unit=8").value();
  const auto planned = [&](uint32_t tokens) {
    return cost_of({"tiered", {}}, setup, {.tokens = tokens}).value().least_fast_bytes;
  };
  EXPECT_EQ(planned(24), 8 * unit);
  EXPECT_EQ(planned(25), 10 * unit);
  EXPECT_EQ(planned(31), 10 * unit);  // the window of its last token begins at row 11: two units
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
