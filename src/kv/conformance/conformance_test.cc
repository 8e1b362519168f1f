// Tests what kv.h promises, for every strategy of the registry, its options and every element type.

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

class Conformance : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string why = unavailable(GetParam().spec); !why.empty()) GTEST_SKIP() << why;
  }
  static Shape shape() {
    return shape_of(GetParam(), {.layers = 2, .kv_heads = 3, .head_dim = 6, .max_tokens = 400});
  }
  static Pair pair(uint64_t max_bytes = UINT64_MAX) {
    return {GetParam().spec, shape(), max_bytes};
  }
  static Spec spec() { return spec_of(GetParam().spec); }
  static Spec select() { return select_of(GetParam().spec); }
  static const Strategy& strategy() { return *find_strategy(spec().name); }
  static Traits traits() { return traits_of(strategy(), shape(), spec(), select()); }
  // Returns the bytes of sequences that grew to `tokens` tokens, `step` tokens per step.
  static uint64_t bytes_after(uint32_t tokens, uint32_t sequences = 1, uint32_t step = 1) {
    return cost_of(spec(), setup_for(GetParam().spec, shape()), {tokens, sequences, step})
        .value()
        .fast_bytes;
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, Conformance, testing::ValuesIn(cases()), name_of);

TEST_P(Conformance, OpenedSequencesAreEmptyAndTakeNoMemory) {
  Pair p = pair();
  const std::vector<Token> prompt = {1, 2, 3};
  const Opened a = p.store->open(prompt), b = p.store->open(prompt);
  EXPECT_NE(a.seq, b.seq);
  EXPECT_EQ(a.cached, 0u);
  EXPECT_EQ(p.store->length(a.seq), 0u);
  const Usage usage = p.store->usage();
  EXPECT_EQ(usage.sequences, 2u);
  EXPECT_EQ(usage.allocated_bytes, 0u);
  EXPECT_EQ(p.store->shape().max_tokens, shape().max_tokens);
}

TEST_P(Conformance, RowsComeBackInOrderAsTheyWereWritten) {
  Pair p = pair();
  const SeqId a = p.open(), b = p.open(), c = p.open();
  const std::vector<std::vector<Slot>> batches = {
      {{a, 17}, {b, 1}}, {{c, 5}}, {{b, 1}, {a, 1}, {c, 90}}, {{c, 200}, {a, 1}}, {{b, 2}}};
  for (const auto& slots : batches) {
    auto step = p.begin(slots);
    ASSERT_NE(step, nullptr);
    for (const uint32_t layer : {1u, 0u}) write_layer(*step, p.shape, p.fresh, layer);
    p.expect_shown(*step);
    p.observe(*step);
    p.commit(*step, Kept::all({p.slots}));
  }
  p.expect_as_if_alone();
}

// Uses so few rows that every strategy shows all of them.
TEST_P(Conformance, AStepShowsEachLayerAsSoonAsItIsWritten) {
  Pair p = pair();
  const SeqId a = p.open();
  p.add(a, 3);
  auto step = p.begin({{a, 2}});
  for (uint32_t layer = 0; layer < p.shape.layers; ++layer) {
    write_layer(*step, p.shape, p.fresh, layer);
    if (!p.shows_rows) {
      p.expect_slots_read(*step, layer);
      continue;
    }
    base::Arena scratch;
    kernels::View view;
    view.past.push_back({});  // view() must overwrite this
    view.rest = reinterpret_cast<const float*>(&view);
    step->view(query_of(0, layer, 2), scratch, view);
    EXPECT_EQ(view.rest, nullptr);
    EXPECT_TRUE(gather(view, p.shape, true) == p.bytes_shown(0, layer, 2, true));
  }
}

TEST_P(Conformance, ADroppedStepLeavesContentsAndUsedBytesUnchanged) {
  Pair p = pair();
  const SeqId a = p.open(), b = p.open();
  p.add(a, 30);
  const Usage before = p.store->usage();
  for (int written = 0; written <= 2; ++written) {
    auto step = p.begin({{b, 50}, {a, 100}});
    for (int layer = 0; layer < written; ++layer) write_layer(*step, p.shape, p.fresh, layer);
  }
  const Usage after = p.store->usage();
  EXPECT_EQ(after.used_bytes, before.used_bytes);
  EXPECT_EQ(after.sequences, before.sequences);
  EXPECT_EQ(p.store->length(a), 30u);
  EXPECT_EQ(p.store->length(b), 0u);
  p.expect_as_if_alone();
}

TEST_P(Conformance, AnEmptyCommitKeepsNothing) {
  Pair p = pair();
  const SeqId a = p.open(), b = p.open();
  p.add(a, 40);
  auto step = p.begin({{a, 3}, {b, 2}});
  write_all(*step, p.shape, p.fresh);
  p.commit(*step, {.rows = {{}, {}}});
  step.reset();
  EXPECT_EQ(p.store->length(a), 40u);
  EXPECT_EQ(p.store->length(b), 0u);
  p.expect_contents();
}

TEST_P(Conformance, ATreeCommitKeepsThePathInOrder) {
  Pair p = pair();
  const SeqId a = p.open(), b = p.open();
  p.add(a, 30);
  const uint64_t copied = p.store->usage().copied_bytes;
  auto step = p.begin({{a, 8}, {b, 5}});
  const uint64_t grown = p.store->usage().copied_bytes;
  write_all(*step, p.shape, p.fresh);
  p.commit(*step, {.rows = {{0, 1, 4, 7}, {2}}});
  EXPECT_GE(p.store->usage().copied_bytes, copied);
  // At most rows 4, 7 and 2 are moved. Exceptions: a window of static length may move as a whole,
  // rows that become old are written once more, and policies that forget copy every row.
  if (!traits().endless && !traits().forgets && !p.shape.aging) {
    EXPECT_LE(p.store->usage().copied_bytes - grown, 3 * p.shape.token_bytes());
  }
  step.reset();
  EXPECT_EQ(p.store->length(a), 34u);
  EXPECT_EQ(p.store->length(b), 1u);
  p.add(b, 3);
  p.add(a, 2);
  p.expect_as_if_alone();
}

TEST_P(Conformance, AForkHasTheSameRowsAndIsIsolated) {
  Pair p = pair();
  const SeqId a = p.open();
  p.add(a, 70);
  const Usage before = p.store->usage();
  const SeqId b = p.fork(a), c = p.fork(b);
  p.expect_as_if_alone();
  p.add(b, 5);
  p.add(a, 90);
  p.close(a);
  p.add(c, 1);
  p.expect_as_if_alone();
  p.close(b);
  p.close(c);
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
  EXPECT_GE(p.store->usage().copied_bytes, before.copied_bytes);
}

TEST_P(Conformance, AForkOfAnEmptySequenceIsEmpty) {
  Pair p = pair();
  const SeqId b = p.fork(p.open());
  EXPECT_EQ(p.store->length(b), 0u);
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
  p.add(b, 30);
  p.expect_as_if_alone();
}

TEST_P(Conformance, AForkPastTheCapIsAShortageAndChangesNothing) {
  if (traits_of(strategy(), Shape{}, spec(), select()).cheap_fork || traits().tiered)
    GTEST_SKIP() << "a fork takes little memory";
  kv::Setup rows = setup_for(GetParam().spec, shape());
  if (!traits().forgets) rows.select = {};  // forks share the data kept beside rows
  // A policy that forgets needs room for what its steps keep, in which the first forks may fit.
  const uint64_t room = traits().forgets ? bytes_after(60, 1, 10) : bytes_after(60);
  Pair p = pair(room + cost_of(spec(), rows, {60, 1}).value().fast_bytes - 1);
  const SeqId a = p.open();
  for (uint32_t i = 0; i < 6; ++i) p.add(a, 10);
  constexpr uint32_t kMostForks = 1000;
  for (uint32_t forks = 0; forks < kMostForks; ++forks) {
    const Usage before = p.store->usage();
    const auto fork = p.store->fork(a);
    if (fork.ok() && traits().forgets) continue;
    ASSERT_FALSE(fork.ok());
    EXPECT_GT(fork.error().needed_bytes, fork.error().available_bytes);
    EXPECT_NE(fork.error().what.find("fork of sequence 0"), std::string::npos) << fork.error().what;
    EXPECT_EQ(p.store->usage(), before);
    return;
  }
  FAIL() << "all forks fit";
}

TEST_P(Conformance, AFailedBeginLeavesNoTraceInAnySlot) {
  // A policy that forgets counts what a step keeps beside the rows, too.
  Pair p = pair(bytes_after(120, 3, traits().forgets ? 30 : 1));
  const SeqId a = p.open(), b = p.open(), c = p.open(), d = p.open();
  p.add(a, 30);
  p.add(b, 30);
  const Usage before = p.store->usage();
  ASSERT_EQ(p.begin({{a, 1}, {c, 370}, {b, 370}, {d, 370}}), nullptr);
  EXPECT_GT(p.shortage.needed_bytes, p.shortage.available_bytes);
  EXPECT_NE(p.shortage.what.find("4 sequences"), std::string::npos) << p.shortage.what;
  EXPECT_EQ(p.store->usage(), before);
  EXPECT_EQ(p.store->length(a), 30u);
  EXPECT_EQ(p.store->length(c), 0u);
  p.expect_contents();
}

TEST_P(Conformance, AStepPastTheContextIsAShortageThatSaysSo) {
  if (traits().endless) GTEST_SKIP() << "no context ends its sequences";
  Pair p = pair();
  EXPECT_EQ(p.store->most_tokens(), p.shape.max_tokens);
  const SeqId a = p.open(), b = p.open();
  p.add(a, 399);
  const Usage before = p.store->usage();
  EXPECT_EQ(p.begin({{b, 1}, {a, 2}}), nullptr);
  EXPECT_EQ(p.shortage.what, "sequence 0: 401 tokens of a context of 400");
  EXPECT_EQ(p.shortage.needed_bytes, 2 * p.shape.token_bytes());
  EXPECT_EQ(p.shortage.available_bytes, p.shape.token_bytes());
  EXPECT_EQ(p.begin({{b, UINT32_MAX}}), nullptr);
  EXPECT_EQ(p.store->usage(), before);
  p.add(a, 1);
  EXPECT_EQ(p.begin({{a, 1}}), nullptr);
}

TEST_P(Conformance, ClosingGivesEverythingBackAndRetiresTheId) {
  Pair p = pair();
  const SeqId a = p.open(), b = p.open();
  p.add(a, 100);
  p.add(b, 3);
  p.close(a);
  EXPECT_EQ(p.store->usage().used_bytes,
            traits().slots ? bytes_after(3) : 3 * p.shape.token_bytes());
  EXPECT_EQ(p.store->usage().slow_bytes, 0u);
  const SeqId c = p.open();
  EXPECT_NE(c, a);
  EXPECT_NE(c, b);
  p.close(b);
  p.close(c);
  const Usage usage = p.store->usage();
  EXPECT_EQ(usage.allocated_bytes, 0u);
  EXPECT_EQ(usage.used_bytes, 0u);
  EXPECT_EQ(usage.wasted_bytes, 0u);
  EXPECT_EQ(usage.sequences, 0u);
}

// Returns the bytes that the rows or slots of a sequence take.
uint64_t used_by(const Pair& p, SeqId seq) {
  const uint32_t tokens = p.store->length(seq);
  if (!p.shows_rows) return tokens > 0 ? made_slots(p.shape).facts.initial.size_bytes() : 0;
  uint32_t left = 0;
  for (const MapEntry& piece : map_of(*p.store))
    if (piece.owner == seq) left += piece.used_tokens;
  return p.forgets ? left * p.shape.token_bytes() : p.shape.used_bytes(tokens);
}

TEST_P(Conformance, UsageAddsUpAndStaysUnderTheCap) {
  // A step of several rows may need a buffer of its own, which bytes_after() does not count. A
  // policy that forgets may keep the rows' scores too: it counts both in longer steps.
  const uint64_t room = traits().forgets ? bytes_after(400, 1, 4) - bytes_after(400)
                        : shape().aging  ? 4 * shape().token_bytes()
                                         : 0;
  const uint64_t cap = bytes_after(400, 2) + room;
  Pair p = pair(cap);
  const SeqId a = p.open(), b = p.open();
  for (uint32_t i = 0; i < 100; ++i) {
    p.add(i % 3 == 0 ? b : a, 1 + i % 4);
    const Usage usage = p.store->usage();
    EXPECT_EQ(usage.wasted_bytes, usage.allocated_bytes - usage.used_bytes - usage.cached_bytes);
    EXPECT_LE(usage.allocated_bytes, cap);
    EXPECT_EQ(usage.shared_bytes, 0u);
    if (!traits().tiered) {
      EXPECT_EQ(usage.slow_bytes, 0u);
    }
    if (!traits().tiered) {
      EXPECT_EQ(usage.used_bytes, used_by(p, a) + used_by(p, b));
    }
  }
}

TEST_P(Conformance, TheCostFormulasEqualARunToTheByte) {
  Pair p = pair();
  const SeqId a = p.open(), b = p.open();
  const kv::Setup setup = setup_for(GetParam().spec, p.shape);
  const uint32_t most = p.shape.max_tokens * (traits().endless ? 3 : 1);
  for (uint32_t tokens = 1; tokens <= most; ++tokens) {
    auto step = p.begin({{a, 1}, {b, 1}});
    write_all(*step, p.shape, p.fresh);
    const Cost cost = cost_of(spec(), setup, {tokens, 2}).value();
    if (tokens % 37 == 1) {
      const uint64_t before = p.store->usage().read_bytes;
      uint64_t read = read_bytes(*step, p.shape, setup.slots);
      if (!select().name.empty()) read = p.store->usage().read_bytes - before;
      ASSERT_EQ(cost.read_bytes_per_token, read) << tokens;
    }
    step->commit(Kept::all({p.slots}));
    const Usage usage = p.store->usage();
    ASSERT_EQ(cost.fast_bytes, usage.allocated_bytes) << tokens;
    ASSERT_EQ(cost.slow_bytes, usage.slow_bytes) << tokens;
    ASSERT_EQ(cost.copied_bytes, usage.copied_bytes) << tokens;
  }
  EXPECT_EQ(cost_of(spec(), setup, {0, 2}).value().fast_bytes, 0u);
}

// Returns what a single thread is shown: [2 slots][3 heads][K, V].
std::vector<std::vector<std::byte>> shown_alone(Step& step, const Shape& shape, uint32_t layer) {
  std::vector<std::vector<std::byte>> all;
  base::Arena scratch;
  kernels::View view;
  for (uint32_t i = 0; i < 6; ++i) {
    step.view(query_of(i / 3, layer, i % 3), scratch, view);
    for (const bool is_v : {false, true}) all.push_back(gather(view, shape, is_v));
  }
  return all;
}

TEST_P(Conformance, ViewsMayBeTakenFromManyThreads) {
  if (traits().slots) GTEST_SKIP() << "keeps a memory and shows no rows";
  Pair p = pair();
  const SeqId a = p.open(), b = p.open();
  p.add(a, 100);
  p.add(b, 7);
  auto step = p.begin({{a, 3}, {b, 4}});
  for (uint32_t layer = 0; layer < p.shape.layers; ++layer) {
    write_layer(*step, p.shape, p.fresh, layer);
    const std::vector<std::vector<std::byte>> expected = shown_alone(*step, p.shape, layer);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, layer, thread] {
        base::Arena scratch;
        kernels::View view;
        for (uint32_t i = 0; i < 60; ++i) {
          const Query query = query_of(i % 2, layer, i % 3);
          step->view(query, scratch, view);
          const uint32_t is_v = i % 4 < 2 ? 1 : 0, at = (query.slot * 3 + query.head) * 2 + is_v;
          if (gather(view, p.shape, is_v == 1) != expected[at]) ++wrong;
          // Observe each of the six views once.
          Observer* const observer = step->facets().observer;
          if (observer != nullptr && i < 6 && thread == i % 4)
            observer->observe(query, view,
                              std::vector<float>(probs_of(*observer, layer, view), 0.5f));
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

class Endless : public Conformance {};
INSTANTIATE_TEST_SUITE_P(Registry, Endless, testing::ValuesIn(endless_cases()), name_of);

TEST_P(Endless, AnEndlessSequenceGoesOnPastTheContext) {
  Pair p = pair();
  EXPECT_EQ(p.store->most_tokens(), UINT32_MAX);
  const SeqId a = p.open();
  for (const uint32_t rows : {390, 9, 1, 1, 399, 1, 700, 3}) {
    p.add(a, rows);
    const Usage usage = p.store->usage();
    EXPECT_EQ(usage.allocated_bytes, bytes_after(400));
    EXPECT_EQ(usage.used_bytes,
              p.forgets ? used_by(p, a) : p.held(a).size() * p.shape.token_bytes());
    p.expect_contents();
  }
  const SeqId b = p.fork(a);
  p.add(b, 2);
  p.expect_as_if_alone();
}

}  // namespace
}  // namespace kvick::kv::test
