// What the planner says that a step needs of fast memory, against what the store refuses.

#include <gtest/gtest.h>

#include "base/clock.h"
#include "kv/strategy/checked_store.h"
#include "kv/strategy/facet_calls.h"
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
  setup.tier.spec = parse_spec("ram:unit=8,access=copy").value();
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

// -- rows that are loaded --

// Adds one token, views all rows and returns the bytes that this loaded from the tier.
uint64_t loaded_by_a_token(Pair& p, const std::vector<Slot>& slots) {
  const uint64_t before = p.store->usage().slow_read_bytes;
  auto step = p.begin(slots);
  EXPECT_NE(step, nullptr) << p.shortage.what;
  if (step == nullptr) return 0;
  write_all(*step, p.shape, p.fresh);
  for (uint32_t slot = 0; slot < slots.size(); ++slot)
    for (uint32_t layer = 0; layer < kShape.layers; ++layer)
      for (uint32_t head = 0; head < kShape.kv_heads; ++head) {
        base::Arena scratch;
        kernels::View view;
        step->view({.slot = slot, .layer = layer, .head = head}, scratch, view);
      }
  p.commit(*step, Kept::all({p.slots}));
  return p.store->usage().slow_read_bytes - before;
}

TEST(TieredCost, OfRowsThatAreLoadedIsOfThoseThatAreInNoFrame) {
  for (const uint32_t sequences : {1U, 2U})
    for (const uint64_t frames : {14U, 20U, 70U, 130U, 400U}) {
      SCOPED_TRACE(fmt::format("{} sequences, {} frames", sequences, frames));
      kv::Setup setup = test_setup(kShape);
      setup.tier.spec =
          parse_spec(fmt::format("ram:unit=8,size=16MiB,access=load,fast={}", frames * kUnit))
              .value();
      Pair p("tiered", kShape);
      p.store = make_store({"tiered", {}}, setup).value();
      std::vector<Slot> slots;
      for (uint32_t i = 0; i < sequences; ++i) slots.push_back({p.open(), 1});
      for (uint32_t tokens = 1; tokens <= 200; ++tokens) {
        const uint64_t loaded = loaded_by_a_token(p, slots);
        const Cost cost = cost_of({"tiered", {}}, setup, {tokens, sequences}).value();
        // A unit that was just filled is still in its frame.
        if (tokens % 8 >= 2) {
          ASSERT_EQ(loaded, cost.slow_read_bytes_per_token) << tokens;
        }
        ASSERT_EQ(cost.slow_bytes, p.store->usage().slow_bytes);
        ASSERT_EQ(cost.fast_bytes, p.store->usage().allocated_bytes) << tokens;
        ASSERT_EQ(cost.least_fast_bytes, sequences * kRegions * kUnit);
      }
      p.expect_contents();
    }
}

TEST(TieredCost, AForkWritesItsFullUnitsHoweverRowsAreRead) {
  for (const char* access : {"copy", "load"}) {
    kv::Setup setup = test_setup(kShape);
    setup.tier.spec = parse_spec(fmt::format("ram:unit=8,size=16MiB,access={}", access)).value();
    Pair p("tiered", kShape);
    p.store = make_store({"tiered", {}}, setup).value();
    const SeqId seq = p.open();
    p.add(seq, 30);
    const uint64_t before = p.store->usage().slow_written_bytes;
    EXPECT_EQ(before, 3 * kRegions * kUnit) << access;
    p.fork(seq);
    EXPECT_EQ(p.store->usage().slow_written_bytes - before, 3 * kRegions * kUnit) << access;
    p.expect_contents();
  }
}

// 25 units in each of 6 regions. Copied one after the other, or those of each layer, they would
// wait for at least 150 latencies.
TEST(TieredCost, TheLatenciesOfAForksTransfersOverlap) {
  constexpr double kLatency = 0.02;
  for (const char* access : {"copy", "load"}) {
    SCOPED_TRACE(access);
    kv::Setup setup = test_setup(kShape);
    setup.tier.spec =
        parse_spec(fmt::format("ram:unit=8,size=16MiB,latency=20ms,access={}", access)).value();
    Pair p("tiered", kShape);
    p.store = make_store({"tiered", {}}, setup).value();
    const SeqId seq = p.open();
    p.add(seq, 203);
    shrink(*p.store, UINT64_MAX);  // a unit in a frame is not read
    const double began = base::steady_seconds();
    p.fork(seq);
    const double seconds = base::steady_seconds() - began;
    EXPECT_GE(seconds, 2 * kLatency) << "a read and a write one after the other";
    EXPECT_LT(seconds, 50 * kLatency);
    p.expect_contents();
  }
}

TEST(TieredCost, OfAPromptThatIsLoadedIsThatOfItsOwnRows) {
  kv::Setup setup = test_setup(kShape);
  setup.tier.spec = parse_spec("ram:unit=8,access=load").value();
  const Load pieces = {.tokens = 70, .sequences = 1, .step = 30};
  EXPECT_EQ(cost_of({"tiered", {}}, setup, pieces).value().least_fast_bytes, 2 * kRegions * kUnit);
}

}  // namespace
}  // namespace kvick::kv::test
