#include "kv/select/meter.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

TEST(CheckedView, ComesOnceInSoManyTokensAndToAllViewsAlike) {
  for (const uint32_t views : {1u, 2u, 7u, 16u, 90u}) {
    std::vector<uint32_t> count(views);
    const uint32_t tokens = 3 * views * kTokensACheck;
    for (uint32_t committed = 0; committed < tokens; ++committed) {
      const auto view = checked_view(committed, 1, views);
      EXPECT_EQ(view.has_value(), committed % kTokensACheck == 0);
      if (view) ++count.at(*view);
    }
    EXPECT_EQ(count, std::vector<uint32_t>(views, 3)) << views;
  }
  EXPECT_FALSE(checked_view(8, 1, 0).has_value());
}

TEST(CheckedView, OfAStepOfSeveralRowsIsTheOneOfTheRowItFallsOn) {
  EXPECT_EQ(checked_view(6, 4, 90), checked_view(8, 1, 90));
  EXPECT_FALSE(checked_view(5, 3, 90).has_value());
}

TEST(Meter, RaisesTheBudgetAboveTheLossAndLowersItBelowHalfOfIt) {
  const Selection held = {.share = 125000, .loss = 20000};
  Meter meter;
  const auto add = [&](float lost, uint32_t times, bool more = true) {
    for (uint32_t i = 0; i < times; ++i) meter.add(lost, held, more);
  };
  add(0.03f, Meter::kSettled - 1);
  EXPECT_EQ(meter.level, 0u);
  add(0.03f, 1);
  EXPECT_EQ(meter.level, 1u);
  add(0.015f, 3 * Meter::kSettled);  // between the two limits: no change
  EXPECT_EQ(meter.level, 1u);
  add(0.03f, Meter::kSettled, false);  // all rows are read already
  EXPECT_EQ(meter.level, 1u);
  add(0.005f, 3 * Meter::kSettled);
  EXPECT_EQ(meter.level, 0u);
}

TEST(Meter, ABudgetIsRaisedByAHalfUpToAllRows) {
  const Selection share = {.share = 250000, .least = 100}, rows = {.rows = 100};
  EXPECT_EQ(share.raised(0).share, 250000u);
  EXPECT_EQ(share.raised(1).share, 375001u);
  EXPECT_EQ(share.raised(10).share, 1000000u);
  EXPECT_TRUE(share.raised(10).of(5000).all());
  EXPECT_EQ(share.raised(2).budget(40), 227u);
  EXPECT_EQ(rows.raised(2).rows, 227u);
  EXPECT_EQ(rows.raised(100).budget(7), 1u << 30);
}

TEST(Selection, TakesALossFromNoneToAll) {
  const auto loss = [](const char* text) {
    Selection selection;
    const auto read = read_loss(parse_spec(text).value(), selection);
    return read.ok() ? std::to_string(selection.loss) : read.error().message;
  };
  EXPECT_EQ(loss("p"), "0");
  EXPECT_EQ(loss("p:loss=0"), "0");
  EXPECT_EQ(loss("p:loss=0.02"), "20000");
  EXPECT_TRUE(loss("p:loss=2.5").starts_with("p: loss='2.5' is not a decimal number"));
}

TEST(Selection, WritesTheLeastShareAsItIsRead) {
  static constexpr Option kOptions[] = {budget_option(), sinks_option(), recent_option(),
                                        dense_layers_option()};
  const auto share = [](const char* text) {
    const auto read = read_selection(parse_spec(text).value(), kOptions);
    return read.ok() ? std::to_string(read->share) : read.error().message;
  };
  EXPECT_TRUE(share("p:budget=1.5")
                  .starts_with("p: budget='1.5' is not a decimal number from 0.000001 to 1 ("));
  EXPECT_EQ(share("p:budget=0.000001"), "1");
}

// -- in a store --

constexpr Shape kShape = {
    .layers = 2, .kv_heads = 2, .head_dim = 32, .max_tokens = 2000, .k_type = kernels::DType::kF32};

// Begins a step of one token and makes all of its views, as a model would.
std::unique_ptr<Step> look(Pair& p, SeqId seq, std::vector<uint32_t>* rows = nullptr) {
  auto step = p.begin({{seq, 1}});
  write_all(*step, p.shape, p.fresh);
  base::Arena scratch;
  kernels::View view;
  for (uint32_t layer = 0; layer < p.shape.layers; ++layer)
    for (uint32_t head = 0; head < p.shape.kv_heads; ++head) {
      step->view(query_of(0, layer, head), scratch, view);
      if (rows != nullptr) rows->push_back(rows_of(view));
    }
  return step;
}

// Compares the meter with a direct sum, for the scale, cap and sinks of the query.
void check_lost_mass(float scale, float softcap = 0, const float* sinks = nullptr) {
  Pair p("paged:block=8 quest:page=4,dense_layers=1,sinks=4,recent=5,budget=30", kShape);
  const SeqId a = p.open();
  p.add(a, 101);
  while (p.store->length(a) % kTokensACheck != 0) p.add(a, 1);
  const uint32_t count = p.store->length(a);
  auto step = p.begin({{a, 1}});
  write_all(*step, kShape, p.fresh);
  base::Arena scratch;
  kernels::View view;
  const uint32_t head = *checked_view(count, 1, kShape.kv_heads);  // in the layer that chooses
  Query query = query_of(0, 1, head);
  query.scale = scale;
  query.softcap = softcap;
  query.sinks = sinks;
  step->view(query, scratch, view);
  const Rows read = positions(view);
  p.commit(*step, Kept::all({p.slots}));
  ASSERT_EQ(p.store->usage().checks, 1u);

  const auto weight = [&](Row row) {
    double score = 0;
    for (uint32_t i = 0; i < kShape.head_dim; ++i)
      score += double{query.q[i]} * value_of(row, 1, head, false, i);
    double logit = score * (scale == 0 ? 1 / std::sqrt(32.0) : scale);
    if (softcap != 0) logit = softcap * std::tanh(logit / softcap);
    return std::exp(logit - 40);
  };
  double all = weight(p.fresh[0]), lost = 0;
  for (uint32_t pos = 0; pos < count; ++pos) {
    const double mass = weight(p.twin[a][pos]);
    all += mass;
    if (std::find(read.begin(), read.end(), pos) == read.end()) lost += mass;
  }
  if (sinks != nullptr) all += std::exp(*sinks - 40);
  EXPECT_GT(lost / all, 0);
  EXPECT_NEAR(p.store->usage().lost_mass, lost / all, 1e-4) << scale;
}

TEST(Meter, FindsWhatADirectSumOverAllRowsFinds) {
  check_lost_mass(0);
  check_lost_mass(0.05F);
}

TEST(Meter, CountsTheCapAndTheSinkOfTheLogits) {
  const float low = 4, high = 8;
  check_lost_mass(0.05F, 2);
  check_lost_mass(0.05F, 0, &low);
  check_lost_mass(0.05F, 2, &high);
  check_lost_mass(4, 2, &low);  // dot products far above the cap
}

TEST(Meter, CountsAtTheCommitAndADroppedStepLeavesNoTrace) {
  Pair p("virtual quest:page=4,dense_layers=0,sinks=4,recent=5,budget=30,loss=0.001", kShape);
  const SeqId a = p.open();
  p.add(a, 100);
  EXPECT_EQ(p.store->usage().checks, 0u) << "a prompt reads all rows";
  look(p, a).reset();
  EXPECT_EQ(p.store->usage().checks, 0u);
  p.commit(*look(p, a), Kept::all({p.slots}));
  EXPECT_EQ(p.store->usage().checks, 1u);
  p.commit(*look(p, a), Kept::all({p.slots}));
  EXPECT_EQ(p.store->usage().checks, 1u) << "one in four tokens";
}

TEST(Meter, HoldsTheBudgetOfEachSequenceAgainstItsOwnLoss) {
  const auto rows_at = [](const char* loss) {
    Pair p(
        std::string("virtual quest:page=4,dense_layers=0,sinks=4,recent=5,budget=0.125,least=9") +
            loss,
        kShape);
    const SeqId a = p.open(), other = p.open();
    p.add(a, 400);
    p.add(other, 400);
    std::vector<uint32_t> first, last, others;
    look(p, a, &first);
    for (uint32_t i = 0; i < kTokensACheck * Meter::kSettled; ++i)
      p.commit(*look(p, a), Kept::all({p.slots}));
    look(p, a, &last);
    look(p, other, &others);
    EXPECT_EQ(others, first);
    // A fork keeps the budget of its sequence.
    std::vector<uint32_t> forks;
    look(p, p.store->fork(a).value(), &forks);
    EXPECT_EQ(forks, last);
    return std::pair(first[0], last[0]);
  };
  const auto [begin, plain] = rows_at("");
  const auto [same, held] = rows_at(",loss=0.001");
  EXPECT_EQ(same, begin);
  EXPECT_GT(held, plain + plain / 3);
  EXPECT_EQ(rows_at(",loss=1.0").second, plain);
}

TEST(Meter, IsRefusedWhereRowsAreInASlowerTier) {
  kv::Setup setup = test_setup(kShape);
  setup.tier.spec = parse_spec("ram:fast=1MiB").value();
  setup.select.spec = parse_spec("quest:loss=0.01").value();
  const auto made = make_store({.name = "tiered", .options = {}}, setup);
  ASSERT_FALSE(made.ok());
  EXPECT_TRUE(made.error().message.starts_with("quest: loss= is held by checks"))
      << made.error().message;
}

}  // namespace
}  // namespace kvick::kv::test
