// Rows in a slower tier, with few frames and with tiers that are full, slow or broken.

#include "kv/tier/tiered.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <random>
#include <thread>

#include "kv/strategy/budget.h"
#include "kv/strategy/checked_store.h"
#include "kv/testing/store_and_twin.h"
#include "kv/tier/test_tier.h"

namespace kvick::kv::test {
namespace {

// Units of 8 tokens, 8 * 2 * 16 bytes each; 8 tokens of all layers take 6 units.
constexpr Shape kShape = {.layers = 3, .kv_heads = 2, .head_dim = 8, .max_tokens = 300};
constexpr uint64_t kUnit = 8 * 2 * 16, kRegions = 6;

Setup setup_with(const std::string& tier, uint64_t max_bytes = UINT64_MAX) {
  Setup setup = test_setup(kShape, max_bytes);
  setup.tier.spec = parse_spec(tier).value();
  return setup;
}

// A tiered store with `frames` frames over a MadeTier.
struct Made {
  explicit Made(uint64_t frames, uint64_t tier_bytes = uint64_t{1} << 40, double seconds = 5,
                UnitsAsked asked = {})
      : pair("tiered", kShape) {
    auto owned = std::make_unique<MadeTier>(tier_bytes);
    tier = owned.get();
    TierOptions options = read_tier(parse_spec("ram:unit=8").value()).value();
    options.fast_bytes = frames * kUnit;
    options.timeout_s = seconds;
    kv::Setup setup = test_setup(kShape);
    setup.tier.asked = std::move(asked);
    pair.store = make_tiered_store(setup, options, std::move(owned)).value();
  }
  Pair pair;
  MadeTier* tier;
};

TEST(Tiered, ShowsAllRowsThroughFramesForOneLayer) {
  // 200 tokens are 25 units per region: 50 frames for a layer, 6 for the fresh row's units.
  Made made(50 + 2 * kRegions);
  Pair& p = made.pair;
  const SeqId a = p.open();
  while (p.store->length(a) < 200) {
    p.add(a, std::min(7u, 200 - p.store->length(a)));
    ASSERT_LE(p.store->usage().allocated_bytes, (50 + 2 * kRegions) * kUnit);
  }
  p.expect_contents();
  const Usage usage = p.store->usage();
  EXPECT_GT(usage.slow_read_bytes, 0u);
  EXPECT_EQ(usage.slow_written_bytes, 25 * kRegions * kUnit);
  EXPECT_EQ(usage.slow_bytes, 25 * kTierPage);  // 1536 bytes, rounded up to whole pages
}

TEST(Tiered, SaysWhatALayerNeedsIfThereAreTooFewFrames) {
  Made made(39);
  Pair& p = made.pair;
  const SeqId a = p.open();
  while (p.store->length(a) < 136) p.add(a, 8);
  // 17 units of two heads, and 6 for fresh rows.
  ASSERT_EQ(p.begin({{a, 8}}), nullptr);
  EXPECT_EQ(p.shortage.needed_bytes, (2 * 17 + kRegions) * kUnit);
  kv::Setup setup = setup_with("ram:unit=8,access=copy");
  const auto planned = [&] {
    return cost_of({"tiered", {}}, setup, {.tokens = 137}).value().least_fast_bytes;
  };
  EXPECT_EQ(planned(), p.shortage.needed_bytes);
  setup.tier.asked = [](uint32_t, uint32_t) { return 7U; };
  EXPECT_EQ(planned(), (2 * 7 + kRegions) * kUnit);
  EXPECT_EQ(p.shortage.available_bytes, 39 * kUnit);
  EXPECT_NE(p.shortage.what.find("a step of 1 sequences"), std::string::npos);
  EXPECT_EQ(p.store->length(a), 136u);
  EXPECT_TRUE(failure(*p.store, a).empty());
}

// Adds one token and returns the bytes that this read from the tier.
uint64_t read_by_a_token(Pair& p, const std::vector<Slot>& slots) {
  const uint64_t before = p.store->usage().slow_read_bytes;
  auto step = p.begin(slots);
  EXPECT_NE(step, nullptr) << p.shortage.what;
  write_all(*step, p.shape, p.fresh);
  p.commit(*step, Kept::all({p.slots}));
  return p.store->usage().slow_read_bytes - before;
}

TEST(Tiered, ReadsFromTheTierWhatThePlannerSays) {
  for (const uint32_t sequences : {1u, 2u})
    for (const uint64_t frames : {70u, 100u, 130u, 200u, 400u}) {
      if (frames < 50 * sequences + 2 * kRegions * sequences) continue;
      Made made(frames);
      Pair& p = made.pair;
      const kv::Setup setup = setup_with(fmt::format("ram:unit=8,fast={}", frames * kUnit));
      std::vector<Slot> slots;
      for (uint32_t i = 0; i < sequences; ++i) slots.push_back({p.open(), 1});
      for (uint32_t tokens = 1; tokens <= 200; ++tokens) {
        const uint64_t read = read_by_a_token(p, slots);
        const Cost cost = cost_of({"tiered", {}}, setup, {tokens, sequences}).value();
        // A unit that was just filled is still in its frame.
        if (tokens > 16 && tokens % 8 >= 4) {
          ASSERT_EQ(read, cost.slow_read_bytes_per_token)
              << tokens << " tokens of " << sequences << " sequences, " << frames << " frames";
        }
        ASSERT_EQ(cost.slow_bytes, p.store->usage().slow_bytes);
        ASSERT_EQ(cost.fast_bytes, p.store->usage().allocated_bytes) << tokens << " " << frames;
      }
    }
}

TEST(Tiered, GivesFramesBackThatOthersNeed) {
  auto budget = std::make_shared<Budget>(400 * kUnit);
  kv::Setup setup = setup_with("ram:unit=8");
  setup.limits.budget = budget;
  Pair p("tiered", kShape);
  p.store = make_store({"tiered", {}}, setup).value();
  const SeqId a = p.open();
  p.add(a, 200);
  EXPECT_EQ(p.store->usage().allocated_bytes, 25 * kRegions * kUnit);
  EXPECT_EQ(p.store->usage().cached_bytes, 25 * kRegions * kUnit);
  EXPECT_EQ(shrink(*p.store, 100 * kUnit), 100 * kUnit);
  EXPECT_EQ(budget->used(), 50 * kUnit);
  auto other = budget->charge(budget->free() - 56 * kUnit, "another store").value();
  EXPECT_EQ(p.store->length(a), 200u);
  p.expect_contents();
  EXPECT_LE(p.store->usage().allocated_bytes, 112 * kUnit);
}

// -- some of the rows --

uint32_t seven_units(uint32_t, uint32_t) { return 7; }

// Checks the keys and values of the rows that a policy has chosen, in one layer and head.
void expect_some(Pair& p, Step& step, const Query& query, const std::vector<uint32_t>& chosen) {
  base::Arena scratch;
  kernels::View view;
  step.facets().fetcher->view_some(query, chosen, scratch, view);
  ASSERT_EQ(positions(view), chosen);
  const Rows all = p.shown(query.slot);
  Rows expected;
  for (const uint32_t row : chosen) expected.push_back(all[row]);
  const size_t committed = p.store->length(p.slots[query.slot].seq);
  expected.insert(expected.end(), all.begin() + static_cast<ptrdiff_t>(committed), all.end());
  for (const bool is_v : {false, true})
    ASSERT_TRUE(gather(view, kShape, is_v) ==
                bytes_of(kShape, expected, query.layer, query.head, is_v));
}

TEST(Tiered, ReadsTheUnitsOfChosenRowsAndNoOthers) {
  Made made(40, uint64_t{1} << 40, 5, seven_units);
  Pair& p = made.pair;
  const SeqId a = p.open();
  while (p.store->length(a) < 203) p.add(a, std::min(8u, 203 - p.store->length(a)));
  auto step = p.begin({{a, 2}});
  ASSERT_NE(step, nullptr) << p.shortage.what;
  const uint64_t before = p.store->usage().slow_read_bytes;
  write_layer(*step, kShape, p.fresh, 0);
  // Units 0, 1, 2 and 24. Rows from 200 on are in a unit that is not full.
  expect_some(p, *step, {.slot = 0, .layer = 0, .head = 1}, {3, 9, 10, 16, 199, 200, 202});
  EXPECT_LE(p.store->usage().slow_read_bytes - before, 4 * kUnit);
  EXPECT_GE(p.store->usage().slow_read_bytes - before, 3 * kUnit);
  const uint64_t read = p.store->usage().slow_read_bytes;
  expect_some(p, *step, {.slot = 0, .layer = 0, .head = 1}, {0, 8});  // reads nothing again
  EXPECT_EQ(p.store->usage().slow_read_bytes, read);
  const std::vector<uint32_t> next = {40, 41, 100};
  step->facets().fetcher->prefetch({.slot = 0, .layer = 1, .head = 0}, next);
  EXPECT_EQ(p.store->usage().slow_read_bytes, read + 2 * kUnit);
  for (const uint32_t layer : {1u, 2u}) write_layer(*step, kShape, p.fresh, layer);
  expect_some(p, *step, {.slot = 0, .layer = 1, .head = 0}, next);
  p.commit(*step, Kept::all({p.slots}));
  EXPECT_LE(p.store->usage().allocated_bytes, 40 * kUnit);
}

TEST(Tiered, ChosenRowsMayBeAskedForFromManyThreads) {
  Made made(60, uint64_t{1} << 40, 5, seven_units);
  Pair& p = made.pair;
  const SeqId a = p.open(), b = p.open();
  while (p.store->length(a) < 100)
    for (const SeqId seq : {a, b}) p.add(seq, 4);
  for (int turn = 0; turn < 20; ++turn) {
    auto step = p.begin({{a, 1}, {b, 1}});
    ASSERT_NE(step, nullptr) << p.shortage.what;
    for (uint32_t layer = 0; layer < kShape.layers; ++layer) {
      write_layer(*step, kShape, p.fresh, layer);
      std::vector<std::thread> threads;
      for (uint32_t i = 0; i < 4; ++i)
        threads.emplace_back([&, i, layer] {
          const uint32_t first = static_cast<uint32_t>(turn) * 4 + i;
          expect_some(p, *step, {.slot = i / 2, .layer = layer, .head = i % 2},
                      {first, first + 1, 90 + i});
        });
      for (std::thread& thread : threads) thread.join();
    }
  }
}

// -- what a tier may do --

TEST(Tiered, AFullTierIsAShortageAndChangesNothing) {
  Made made(400, 3 * kTierPage);
  Pair& p = made.pair;
  const SeqId a = p.open();
  p.add(a, 31);
  const Usage before = p.store->usage();
  EXPECT_EQ(p.begin({{a, 1}}), nullptr);
  EXPECT_EQ(p.shortage.what, "the slower tier: 4096 more bytes, but 0 of 12288 are free");
  EXPECT_EQ(p.store->usage(), before);
  p.close(a);
  EXPECT_EQ(made.tier->reserved_pages(), 0u);
  const SeqId b = p.open();
  made.tier->full = true;
  EXPECT_EQ(p.begin({{b, 9}}), nullptr);
  EXPECT_EQ(p.shortage.what, "the tier is full");
  made.tier->full = false;
  p.add(b, 9);
  p.expect_contents();
}

TEST(Tiered, AReadThatFailsEndsItsSequenceAlone) {
  Made made(50);
  Pair& p = made.pair;
  const SeqId a = p.open(), b = p.open();
  while (p.store->length(a) < 60) {
    auto step = p.begin({{a, 1}, {b, 1}});
    ASSERT_NE(step, nullptr) << p.shortage.what;
    write_all(*step, p.shape, p.fresh);
    p.commit(*step, Kept::all({p.slots}));
  }
  // Extents are taken alternately: the even ones belong to a.
  made.tier->fails = [](const Transfer& transfer) {
    return transfer.way == Way::kRead && transfer.at / kTierPage == 2;
  };
  auto step = p.begin({{a, 1}, {b, 1}});
  ASSERT_NE(step, nullptr);
  const std::vector<Slot> slots = p.slots;
  write_all(*step, p.shape, p.fresh);
  const bool a_failed = !failure(*p.store, a).empty();
  const SeqId bad = a_failed ? a : b, good = a_failed ? b : a;
  EXPECT_EQ(failure(*p.store, bad), "the disk is broken");
  EXPECT_EQ(failure(*p.store, good), "");
  expect_shows(*step, kShape, {a_failed ? 1u : 0u, 60}, p.shown(a_failed ? 1 : 0), 1);
  step->commit(Kept::all({slots}));
  EXPECT_EQ(p.store->length(bad), 60u);
  EXPECT_EQ(p.store->length(good), 61u);
  p.twin[good].push_back(p.fresh[a_failed ? 1 : 0]);
  EXPECT_EQ(p.begin({{bad, 1}}), nullptr);
  EXPECT_NE(p.shortage.what.find("the disk is broken"), std::string::npos);
  EXPECT_FALSE(p.store->fork(bad).ok());
  p.close(bad);
  made.tier->fails = {};
  p.expect_contents();
  p.close(good);
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
  EXPECT_EQ(p.store->usage().slow_bytes, 0u);
}

TEST(Tiered, AWriteThatFailsEndsItsSequenceAlone) {
  Made made(400);
  Pair& p = made.pair;
  const SeqId a = p.open(), b = p.open();
  p.add(b, 20);
  made.tier->fails = [](const Transfer& transfer) {  // extents 0 and 1 belong to b
    return transfer.way == Way::kWrite && transfer.at / kTierPage == 2;
  };
  p.add(a, 9);
  p.add(b, 1);
  EXPECT_EQ(failure(*p.store, a), "the disk is broken");
  EXPECT_EQ(failure(*p.store, b), "");
  p.close(a);
  p.expect_contents();
}

TEST(Tiered, ATierThatHangsEndsTheSequenceThatWaitsAndIsGivenBackLater) {
  Made made(40, uint64_t{1} << 40, 0.05);
  Pair& p = made.pair;
  const SeqId a = p.open(), b = p.open();
  while (p.store->length(a) < 64) p.add(a, 8);
  p.add(b, 3);
  made.tier->hangs = [](const Transfer& transfer) { return transfer.way == Way::kRead; };
  {
    auto step = p.begin({{a, 1}, {b, 1}});
    ASSERT_NE(step, nullptr);
    write_all(*step, p.shape, p.fresh);
    EXPECT_EQ(failure(*p.store, a), "the slower tier (a made tier) took longer than 0.05 s");
    EXPECT_EQ(failure(*p.store, b), "");
    p.twin[b].push_back(p.fresh[1]);
    step->commit(Kept::all({p.slots}));
  }
  p.close(a);
  EXPECT_GT(p.store->usage().allocated_bytes, kRegions * kUnit);  // the disk may still write there
  EXPECT_GT(p.store->usage().slow_bytes, 0u);
  made.tier->hangs = {};
  p.expect_contents();  // of b
  EXPECT_EQ(p.store->usage().slow_bytes, 0u);
  p.close(b);
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
}

TEST(Tiered, AForkThatCannotBeCopiedIsAShortageAndLeavesTheSequence) {
  Made made(400);
  Pair& p = made.pair;
  const SeqId a = p.open();
  p.add(a, 50);
  made.tier->fails = [](const Transfer& transfer) {
    return transfer.way == Way::kWrite && transfer.at / kTierPage >= 8;
  };
  const auto fork = p.store->fork(a);
  ASSERT_FALSE(fork.ok());
  EXPECT_NE(fork.error().what.find("fork of sequence 0: the disk is broken"), std::string::npos)
      << fork.error().what;
  p.expect_contents();
  made.tier->fails = {};
  const SeqId b = p.store->fork(a).value();
  p.twin[b] = p.twin[a];
  p.expect_contents();
}

// -- against the reference model, with few frames --

class FewFrames : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(
    Tiers, FewFrames,
    testing::Values("ram:unit=8,size=16MiB", "ram:unit=5,size=16MiB,bandwidth=500MB/s",
                    "ram:unit=8,size=16MiB,access=load",
                    "ram:unit=5,size=16MiB,access=load,bandwidth=500MB/s",
                    "file:unit=16,dir=" + std::filesystem::temp_directory_path().string(),
                    "file:unit=8,io=pread,dir=" + std::filesystem::temp_directory_path().string()));

uint32_t seed() {
  const char* given = std::getenv("KVICK_TEST_SEED");
  return given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                          : std::random_device{}();
}

TEST_P(FewFrames, RandomOperationsAgreeWithTheTrivialModel) {
  const uint32_t from = seed();
  SCOPED_TRACE("KVICK_TEST_SEED=" + std::to_string(from));
  std::mt19937 random(from);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Pair p("tiered", kShape);
  constexpr uint64_t kFast = 64 << 10;  // two thirds of a sequence of 300 tokens
  p.store =
      make_store({"tiered", {}}, setup_with(GetParam() + ",fast=" + std::to_string(kFast))).value();
  for (int i = 0; i < 300 && !HasFatalFailure(); ++i) {
    const auto any = [&] {
      return std::next(p.twin.begin(), below(static_cast<uint32_t>(p.twin.size())))->first;
    };
    const uint32_t dice = below(20);
    if (p.twin.empty() || dice == 0) {
      if (p.twin.size() < 4) p.open();
    } else if (dice == 1) {
      p.close(any());
    } else if (dice == 2 && p.twin.size() < 4) {
      const SeqId source = any();
      if (const auto fork = p.store->fork(source); fork.ok()) p.twin[*fork] = p.twin[source];
    } else {
      std::vector<Slot> slots;
      for (const auto& [seq, rows] : p.twin)
        if (below(2) == 0) slots.push_back({seq, 1 + below(below(4) == 0 ? 40 : 3)});
      if (slots.empty()) continue;
      auto step = p.begin(slots);
      if (step == nullptr) continue;
      write_all(*step, p.shape, p.fresh);
      p.expect_shown(*step);
      Kept kept = Kept::all({p.slots});
      for (auto& rows : kept.rows)
        if (below(3) == 0) std::erase_if(rows, [&](uint32_t) { return below(2) == 0; });
      if (below(6) != 0) p.commit(*step, kept);
    }
    ASSERT_LE(p.store->usage().allocated_bytes, kFast);
    for (const auto& [seq, rows] : p.twin) {
      ASSERT_EQ(p.store->length(seq), rows.size());
      ASSERT_EQ(failure(*p.store, seq), "");
    }
  }
}

TEST(TieredSpec, IsForAStrategyThatKeepsRowsThereAndNothingElse) {
  EXPECT_EQ(make_store({"tiered", {}}, test_setup(kShape)).error().message,
            "tiered keeps rows in a slower tier: name one, as in --kv-tier file:dir=PATH");
  EXPECT_EQ(make_store({"paged", {}}, setup_with("ram")).error().message,
            "paged keeps all rows in memory: with --kv-tier leave --kv out, or say tiered");
  EXPECT_EQ(cost_of({"tiered", {}}, setup_with("rom"), {1, 1}).error().message,
            "'rom' is no tier; there are ram, numa, file");
  const auto small = make_store({"tiered", {}}, setup_with("ram:unit=8,fast=1000"));
  ASSERT_FALSE(small.ok());
  EXPECT_NE(small.error().message.find("less than one unit of 8 tokens"), std::string::npos);
}

}  // namespace
}  // namespace kvick::kv::test
