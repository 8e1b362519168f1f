// What the planner says that a step needs of fast memory, against what the store refuses.

#include <gtest/gtest.h>

#include "kv/strategy/checked_store.h"
#include "kv/testing/store_and_twin.h"
#include "kv/tier/test_tier.h"
#include "kv/tier/tiered.h"

namespace kvick::kv::test {
namespace {

// Units of 8 tokens; 8 tokens of all layers take 6 units.
constexpr Shape kShape = {.layers = 3, .kv_heads = 2, .head_dim = 8, .max_tokens = 300};
constexpr uint64_t kUnit = 8 * 2 * 16, kRegions = 6;

TEST(TieredCost, OfAPromptsPieceIsWhatTheStoreRefuses) {
  TierOptions options = read_tier(parse_spec("ram:unit=8").value()).value();
  options.fast_bytes = 25 * kUnit;
  Pair p("tiered", kShape);
  p.store = make_tiered_store(test_setup(kShape), options, std::make_unique<MadeTier>()).value();
  const SeqId a = p.open();
  while (p.store->length(a) < 60) p.add(a, 4);
  // Rows 60 to 69 touch units 7 and 8. Unit 7 is in frames already; units 0 to 6 are read.
  ASSERT_EQ(p.begin({{a, 10}}), nullptr);
  EXPECT_EQ(p.shortage.needed_bytes, (kRegions + 2 * 7) * kUnit);
  EXPECT_EQ(p.shortage.available_bytes, (25 - kRegions) * kUnit);
  kv::Setup setup = test_setup(kShape);
  setup.tier.spec = parse_spec("ram:unit=8").value();
  const auto planned = [&](const Load& load) {
    return cost_of({"tiered", {}}, setup, load).value().least_fast_bytes;
  };
  const Load pieces = {.tokens = 70, .sequences = 1, .step = 30};
  EXPECT_EQ(planned(pieces), (2 * kRegions + 2 * 7) * kUnit);
  EXPECT_EQ(planned({.tokens = 60, .sequences = 1, .step = 60}), 8 * kRegions * kUnit);
  EXPECT_EQ(planned({.tokens = 60, .sequences = 2, .step = 60}), 2 * 8 * kRegions * kUnit);
  // A prompt reads all rows, even if a policy chooses some of them for answers.
  setup.tier.asked = [](uint32_t, uint32_t) { return 1U; };
  EXPECT_EQ(planned(pieces), (2 * kRegions + 2 * 7) * kUnit);
  EXPECT_EQ(planned({.tokens = 70}), (kRegions + 2 * 1) * kUnit);
}

}  // namespace
}  // namespace kvick::kv::test
