// Breaking the rules of kv.h throws base::Bug and changes nothing, for every strategy.

#include <gtest/gtest.h>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

TEST(Kept, AllKeepsEveryRowOfEverySlot) {
  const std::vector<Slot> slots = {{SeqId{4}, 3}, {SeqId{9}, 1}};
  EXPECT_EQ(Kept::all({slots}).rows, (std::vector<std::vector<uint32_t>>{{0, 1, 2}, {0}}));
}

class Order : public testing::TestWithParam<Case> {
 protected:
  Order() : p(GetParam().spec, kShape), a(p.open()), b(p.open()) { p.add(a, 2); }

  // Views rows or reads slots, as attention would.
  void view(Step& step, Query query) {
    if (p.shows_rows) {
      kernels::View view;
      step.view(query, scratch, view);
    } else {
      const std::vector<float> q(3 * kShape.kv_heads * kShape.head_dim, 1);
      std::vector<float> out(q.size());
      step.facets().slots->read(query.layer,
                                {.group = 1, .q = q.data(), .out = out.data(), .paths = {}});
    }
  }

  static constexpr Shape kShape = {.layers = 2, .kv_heads = 2, .head_dim = 4, .max_tokens = 9};
  Pair p;
  SeqId a, b;
  base::Arena scratch;
};

std::vector<Case> defaults() {
  std::vector<Case> all;
  for (const Strategy& strategy : strategies())
    all.push_back({std::string(strategy.name), kernels::DType::kF16, kernels::DType::kF16});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Registry, Order, testing::ValuesIn(defaults()), name_of);

TEST_P(Order, OnlyOneStepIsAlive) {
  auto step = p.begin({{a, 1}});
  EXPECT_THROW((void)p.store->begin({p.slots}), base::Bug);
  step.reset();
  EXPECT_NE(p.begin({{a, 1}}), nullptr);
}

TEST_P(Order, ACommitEndsTheStepThoughItIsStillHeld) {
  auto step = p.begin({{a, 1}});
  write_all(*step, p.shape, p.fresh);
  p.commit(*step, Kept::all({p.slots}));
  auto next = p.begin({{a, 1}});
  step.reset();  // must not end the new step
  write_all(*next, p.shape, p.fresh);
  EXPECT_THROW((void)p.store->begin({p.slots}), base::Bug);
  p.commit(*next, Kept::all({p.slots}));
  p.expect_contents();
}

TEST_P(Order, NothingIsDoneWithAStepAfterItsCommit) {
  auto step = p.begin({{a, 1}});
  write_all(*step, p.shape, p.fresh);
  const Kept all = Kept::all({p.slots});
  p.commit(*step, all);
  EXPECT_THROW(write_layer(*step, p.shape, p.fresh, 0), base::Bug);
  EXPECT_THROW(view(*step, {}), base::Bug);
  EXPECT_THROW(step->commit(all), base::Bug);
  EXPECT_EQ(p.store->length(a), 3u);
}

TEST_P(Order, SequencesStayAsTheyAreWhileAStepIsAlive) {
  auto step = p.begin({{a, 1}});
  EXPECT_THROW(p.store->close(a), base::Bug);
  EXPECT_THROW(p.store->close(b), base::Bug);
  EXPECT_THROW((void)p.store->fork(a), base::Bug);
  EXPECT_THROW((void)p.store->open({}), base::Bug);
  EXPECT_THROW((void)shrink(*p.store, 1), base::Bug);
  EXPECT_EQ(p.store->length(a), 2u);
  EXPECT_EQ(p.store->usage().sequences, 2u);
  EXPECT_GE(map_of(*p.store).size(), 1u);
}

TEST_P(Order, OnlyOpenSequencesMayBeNamed) {
  p.close(b);
  for (const SeqId unknown : {b, SeqId{99}}) {
    EXPECT_THROW(p.store->close(unknown), base::Bug);
    EXPECT_THROW((void)p.store->fork(unknown), base::Bug);
    EXPECT_THROW((void)p.store->length(unknown), base::Bug);
    EXPECT_THROW((void)p.begin({{a, 1}, {unknown, 1}}), base::Bug);
  }
  p.expect_contents();
}

TEST_P(Order, ABatchHasSlotsWithRowsAndEachSequenceOnce) {
  EXPECT_THROW((void)p.begin({}), base::Bug);
  EXPECT_THROW((void)p.begin({{a, 0}}), base::Bug);
  EXPECT_THROW((void)p.begin({{a, 1}, {b, 1}, {a, 1}}), base::Bug);
  EXPECT_NE(p.begin({{a, 1}}), nullptr);
}

TEST_P(Order, EachLayerIsWrittenOnceAndBeforeItIsViewed) {
  auto step = p.begin({{a, 1}});
  EXPECT_THROW(view(*step, {.layer = 1}), base::Bug);
  write_layer(*step, p.shape, p.fresh, 1);
  EXPECT_NO_THROW(view(*step, {.layer = 1}));
  EXPECT_THROW(view(*step, {.layer = 0}), base::Bug);
  EXPECT_THROW(write_layer(*step, p.shape, p.fresh, 1), base::Bug);
  EXPECT_THROW(write_layer(*step, p.shape, p.fresh, 2), base::Bug);
}

TEST_P(Order, AStrategyShowsRowsOrReadsSlotsAndNotTheOther) {
  auto step = p.begin({{a, 1}});
  write_all(*step, p.shape, p.fresh);
  EXPECT_EQ(step->facets().slots == nullptr, p.shows_rows);
  kernels::View view;
  if (p.shows_rows)
    EXPECT_NO_THROW(step->view({}, scratch, view));
  else
    EXPECT_THROW(step->view({}, scratch, view), base::Bug);
}

TEST_P(Order, GatesOfSlotsComeBeforeTheirRows) {
  auto step = p.begin({{a, 1}});
  SlotReader* const slots = step->facets().slots;
  if (slots == nullptr) GTEST_SKIP() << "shows rows";
  const float gates[] = {0.5F, 0.75F};
  ASSERT_EQ(std::size(gates), kShape.kv_heads);
  EXPECT_THROW(slots->gates(kShape.layers, gates), base::Bug);
  EXPECT_NO_THROW(slots->gates(0, gates));
  write_all(*step, p.shape, p.fresh);
  EXPECT_THROW(slots->gates(0, gates), base::Bug);
}

TEST_P(Order, NothingIsCarriedOutOfRangeNorByAModelThatCarriesNothing) {
  auto step = p.begin({{a, 1}});
  SlotReader* const slots = step->facets().slots;
  if (slots == nullptr) GTEST_SKIP() << "shows rows";
  const float x[] = {1, 2};
  EXPECT_THROW(slots->carry(kShape.layers, x), base::Bug);
  EXPECT_THROW((void)slots->carried(kShape.layers, 0), base::Bug);
  EXPECT_THROW((void)slots->carried(0, 1), base::Bug);
  EXPECT_THROW(slots->carry(0, x), base::Bug);
  EXPECT_THROW((void)slots->carried(0, 0), base::Bug);
}

TEST_P(Order, SlotsAreReadOnceALayerByTheQueriesOfAllSequences) {
  if (p.shows_rows) GTEST_SKIP() << "shows rows";
  auto step = p.begin({{a, 1}});
  write_all(*step, p.shape, p.fresh);
  const std::vector<float> q(kShape.kv_heads * kShape.head_dim, 1);
  std::vector<float> out(q.size());
  const std::span<const uint32_t>* const two[] = {nullptr, nullptr};
  EXPECT_THROW(
      step->facets().slots->read(0, {.group = 0, .q = q.data(), .out = out.data(), .paths = {}}),
      base::Bug);
  EXPECT_THROW(
      step->facets().slots->read(0, {.group = 1, .q = q.data(), .out = out.data(), .paths = two}),
      base::Bug);
  const std::span<const uint32_t> nowhere;
  const std::span<const uint32_t>* const one[] = {&nowhere};
  EXPECT_THROW(
      step->facets().slots->read(0, {.group = 1, .q = q.data(), .out = out.data(), .paths = one}),
      base::Bug);
  EXPECT_THROW(view(*step, {.layer = 2}), base::Bug);
  EXPECT_NO_THROW(view(*step, {.layer = 0}));
  EXPECT_THROW(view(*step, {.layer = 0}), base::Bug);
}

TEST_P(Order, AViewNamesASlotALayerAndAHeadThatExist) {
  if (!p.shows_rows) GTEST_SKIP() << "keeps slots and shows no rows";
  auto step = p.begin({{a, 1}});
  write_all(*step, p.shape, p.fresh);
  EXPECT_THROW(view(*step, {.slot = 1}), base::Bug);
  EXPECT_THROW(view(*step, {.layer = 2}), base::Bug);
  EXPECT_THROW(view(*step, {.head = 2}), base::Bug);
  EXPECT_NO_THROW(view(*step, {.slot = 0, .layer = 1, .head = 1}));
}

TEST_P(Order, RowsAreMovedOfAStrategyThatMovesThemAndWholeOnes) {
  const Strategy& strategy = *find_strategy(parse_spec(GetParam().spec)->name);
  RowMover* const mover = p.store->facets().rows;
  ASSERT_EQ(mover != nullptr, strategy.traits.moves_rows);
  if (mover == nullptr) return;
  std::vector<std::byte> rows(2 * kShape.token_bytes());
  const std::vector<Token> tokens = {1, 2};
  const std::span<std::byte> short_of_one = std::span(rows).first(rows.size() - 1);
  const Usage before = p.store->usage();
  EXPECT_THROW(mover->read_rows(a, 0, 2, short_of_one), base::Bug);
  EXPECT_THROW(mover->read_rows(a, 1, 2, rows), base::Bug);
  EXPECT_THROW(mover->read_rows(a, UINT32_MAX, 2, rows), base::Bug);
  EXPECT_THROW(mover->read_rows(SeqId{99}, 0, 2, rows), base::Bug);
  EXPECT_THROW((void)append_rows(*p.store, a, tokens, short_of_one), base::Bug);
  EXPECT_THROW((void)append_rows(*p.store, SeqId{99}, tokens, rows), base::Bug);
  EXPECT_EQ(p.store->usage(), before);
  auto step = p.begin({{a, 1}});
  EXPECT_THROW(mover->read_rows(a, 0, 2, rows), base::Bug);
  EXPECT_THROW((void)append_rows(*p.store, b, tokens, rows), base::Bug);
  step.reset();
  p.expect_contents();
}

TEST_P(Order, ACommitNeedsEveryLayerAndAscendingRowsOfEverySlot) {
  auto step = p.begin({{a, 3}, {b, 1}});
  write_layer(*step, p.shape, p.fresh, 0);
  EXPECT_THROW(step->commit(Kept::all({p.slots})), base::Bug);
  write_layer(*step, p.shape, p.fresh, 1);
  EXPECT_THROW(step->commit({.rows = {{0}}}), base::Bug);
  EXPECT_THROW(step->commit({.rows = {{0}, {0}, {0}}}), base::Bug);
  EXPECT_THROW(step->commit({.rows = {{0, 3}, {0}}}), base::Bug);
  EXPECT_THROW(step->commit({.rows = {{1, 0}, {0}}}), base::Bug);
  EXPECT_THROW(step->commit({.rows = {{1, 1}, {0}}}), base::Bug);
  EXPECT_EQ(p.store->length(a), 2u);
  p.commit(*step, {.rows = {{0, 2}, {}}});  // the step is still usable after these errors
  EXPECT_EQ(p.store->length(a), 4u);
  p.expect_contents();
}

}  // namespace
}  // namespace kvick::kv::test
