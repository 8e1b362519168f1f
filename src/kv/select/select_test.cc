// Tests the parts that policies share.

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "kv/select/select_store.h"
#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

Selection selection(const std::string& options) {
  static constexpr Option kOptions[] = {budget_option(), sinks_option(), recent_option(),
                                        dense_layers_option()};
  return read_selection(parse_spec("p" + options).value(), kOptions).value();
}

TEST(Selection, CountsSinksAndRecentRowsInTheBudget) {
  const Selection s = selection(":budget=20,sinks=4,recent=6");
  const TopRows at_100 = s.of(100);
  EXPECT_EQ(at_100.first, 4u);
  EXPECT_EQ(at_100.last, 94u);
  EXPECT_EQ(at_100.take, 10u);
  EXPECT_EQ(at_100.read_rows(100), 20u);
  EXPECT_TRUE(s.of(20).all());
  EXPECT_FALSE(s.of(21).all());
  EXPECT_EQ(s.of(0).read_rows(0), 0u);
}

TEST(Selection, AShareIsOfTheRowsThatThereAreAndRoundsUp) {
  const Selection s = selection(":budget=0.25,least=0,sinks=0,recent=0");
  EXPECT_EQ(s.of(101).read_rows(101), 26u);
  EXPECT_EQ(s.of(1).read_rows(1), 1u);
  EXPECT_TRUE(selection(":budget=1.0").of(5000).all());
}

TEST(Selection, AShareIsNeverLessThanSoManyRows) {
  const Selection s = selection(":budget=0.25,least=40,sinks=4,recent=6");
  for (uint32_t rows = 0; rows < 400; ++rows)
    EXPECT_EQ(s.of(rows).read_rows(rows), std::min(rows, std::max(40u, (rows + 3) / 4))) << rows;
  EXPECT_TRUE(selection(":budget=0.25").of(128).all());
  EXPECT_FALSE(selection(":budget=0.25").of(129).all());
}

TEST(Selection, ReadsSinksAndRecentRowsThoughTheyAreMoreThanTheBudget) {
  const Selection s = selection(":budget=1,sinks=4,recent=6");
  EXPECT_EQ(s.of(100).read_rows(100), 10u);
  EXPECT_EQ(s.of(7).read_rows(7), 7u);
}

TEST(Selection, WholeUnitsLieBetweenSinksAndRecentRows) {
  Selection s = selection(":budget=50,sinks=4,recent=6");
  s.unit = 16;
  const TopRows top_rows = s.of(100);
  EXPECT_EQ(top_rows.first, 16u);
  EXPECT_EQ(top_rows.last, 80u);
  EXPECT_EQ(top_rows.take, 0u);  // 36 rows are always read; the other 14 are less than a page
  s.rows = 52;
  EXPECT_EQ(s.of(100).take, 16u);
}

TEST(Selection, SaysWhichOptionMakesNoSense) {
  static constexpr Option kOptions[] = {budget_option(), sinks_option(), recent_option(),
                                        dense_layers_option()};
  const auto error = [](const char* text) {
    return read_selection(parse_spec(text).value(), kOptions).error().message;
  };
  EXPECT_TRUE(error("p:budget=1.5").starts_with("p: budget='1.5' is not a decimal number"));
  EXPECT_TRUE(error("p:budget=0").starts_with("p: budget='0' is not a whole number"));
  EXPECT_TRUE(error("p:least=-1").starts_with("p: least='-1' is not a whole number"));
  EXPECT_EQ(error("p:budget=20,least=4"),
            "p: least= is for a budget that is a share, such as 0.25, not for 20 rows");
  EXPECT_TRUE(error("p:sinks=-1").starts_with("p: sinks='-1' is not a whole number"));
}

TEST(Highest, TakesTheFirstOfEqualScoresAndKeepsTheirOrder) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> scores(1 + random() % 60);
    for (float& score : scores) score = static_cast<float>(random() % 7);
    const auto take = static_cast<uint32_t>(random() % (scores.size() + 1));
    std::vector<uint32_t> expected(scores.size());
    std::iota(expected.begin(), expected.end(), 0u);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
    expected.resize(take);
    std::sort(expected.begin(), expected.end());
    base::Arena scratch;
    const auto taken = highest(tried_kernels(), scores, take, scratch);
    EXPECT_EQ(std::vector<uint32_t>(taken.begin(), taken.end()), expected);
  }
}

TEST(Highest, TakesWhatSortingTakes) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 50; ++round) {
    std::vector<float> scores(1 + random() % 3000);
    for (float& score : scores) score = std::exp(4 * normal(random)) * (round % 2 == 0 ? 1 : -1);
    scores[0] = -INFINITY;
    const auto take = static_cast<uint32_t>(1 + random() % scores.size());
    std::vector<float> sorted = scores;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    base::Arena scratch;
    for (const base::Isa isa : tried_isas()) {
      const auto taken = highest(kernels::table(isa), scores, take, scratch);
      ASSERT_EQ(taken.size(), take);
      ASSERT_TRUE(std::is_sorted(taken.begin(), taken.end()));
      for (const uint32_t i : taken) EXPECT_GE(scores[i], sorted[take - 1]);
    }
  }
}

TEST(Policies, HaveNamesOfTheirOwnAndTheCommonOptionsFirst) {
  for (const Policy& policy : policies()) {
    EXPECT_EQ(find_policy(policy.name)->summary, policy.summary);
    EXPECT_EQ(find_strategy(policy.name), nullptr);
    ASSERT_GE(policy.options.size(), 2u);
    EXPECT_EQ(policy.options[0].name, "budget");
    EXPECT_EQ(policy.options[1].name, "sinks");
    for (const Option& option : policy.options) EXPECT_FALSE(option.summary.empty());
  }
}

TEST(Policies, AreRefusedInOneSentence) {
  kv::Setup setup = {.shape = {.layers = 1, .kv_heads = 1, .head_dim = 32, .max_tokens = 8}};
  const auto error = [&](const char* select, const char* spec = "virtual") {
    setup.select.spec = parse_spec(select).value();
    const auto made = make_store(parse_spec(spec).value(), setup);
    const auto cost = cost_of(parse_spec(spec).value(), setup, {.tokens = 3});
    EXPECT_EQ(made.error().message, cost.error().message);
    return made.error().message;
  };
  EXPECT_TRUE(error("qest").starts_with(
      "'qest' is not a policy of which rows are read; did you mean quest?; there are "));
  EXPECT_TRUE(
      error("quest:pages=3").starts_with("quest has no option 'pages'; did you mean page?"));
  EXPECT_EQ(error("quest", "sliding").substr(0, 58),
            "sliding does not keep rows that quest could choose from; t");
  setup.shape.aging = Aging{};
  EXPECT_EQ(error("quest").substr(0, 31), "quest reads rows of one type, n");
}

// The same test as in conformance_test.cc, which has budgets in rows.
TEST(Policies, ReadAsManyBytesOfAShareAsThePlannerSays) {
  const Shape shape = {.layers = 2, .kv_heads = 2, .head_dim = 24, .max_tokens = 200};
  for (const Policy& policy : policies()) {
    std::string text = fmt::format("virtual {}:budget=0.2,least=12,sinks=2", policy.name);
    if (has_option(policy, "recent")) text += ",recent=3";
    if (has_option(policy, "page")) text += ",page=4";
    if (has_option(policy, "drop")) text += ",drop=5";
    Pair p(text, shape);
    const SeqId a = p.open();
    for (uint32_t tokens = 1; tokens <= shape.max_tokens; ++tokens) {
      const Cost cost =
          cost_of(spec_of(text), setup_for(text, shape), {.tokens = tokens, .sequences = 1})
              .value();
      const uint64_t before = p.store->usage().read_bytes;
      auto step = p.begin({{a, 1}});
      write_all(*step, shape, p.fresh);
      read_bytes(*step, shape, nullptr);
      ASSERT_EQ(p.store->usage().read_bytes - before, cost.read_bytes_per_token)
          << text << " " << tokens;
      p.commit(*step, Kept::all({p.slots}));
    }
  }
}

// Queries times 4 at the default scale, 1 / sqrt(16), have the same logits as the plain queries at
// scale 1. So the same rows must be read, and the rest must have the same probability.
TEST(Policies, EstimateLogitsByTheModelsScale) {
  const Shape shape = {.layers = 1,
                       .kv_heads = 1,
                       .head_dim = 16,
                       .max_tokens = 200,
                       .k_type = kernels::DType::kF32};
  for (const char* policy :
       {"sparq:r=4,budget=30,recent=5", "clusters:cluster=2,block=16,budget=30,recent=5"}) {
    Pair p(std::string("virtual ") + policy, shape);
    const SeqId a = p.open();
    p.add(a, 100);
    auto step = p.begin({{a, 1}});
    write_all(*step, shape, p.fresh);
    Query query = query_of(0, 0, 0);
    std::vector<float> larger(query.q, query.q + shape.head_dim);
    for (float& x : larger) x *= 4;
    base::Arena scratch;
    kernels::View plain, usual;
    query.scale = 1;
    step->view(query, scratch, plain);
    query.scale = 0;
    query.q = larger.data();
    step->view(query, scratch, usual);
    EXPECT_EQ(positions(plain), positions(usual)) << policy;
    EXPECT_TRUE(std::ranges::equal(plain.rest_mass, usual.rest_mass)) << policy;
  }
}

// A side row is four bytes: the input's first element, negated for head 1. Chooses the rows with
// the largest values.
class Largest : public Selector {
 public:
  explicit Largest(const Selection& selection) : Selector(selection) {}
  SummaryShape summary() const override { return {.rows = 8, .bytes = 8 * sizeof(float)}; }
  bool has_side_rows() const override { return true; }
  size_t predicted_floats() const override { return 1; }
  void project(const LayerInputs& inputs, std::byte* side, float* predicted) const override {
    const float* const x = inputs.x;
    for (uint32_t t = 0; t < inputs.positions.size(); ++t) {
      predicted[t] = x[t * 3] + static_cast<float>(inputs.layer);
      for (uint32_t head = 0; head < 2; ++head) {
        const float value = x[t * 3] * (head == 0 ? 1.0F : -1.0F);
        std::memcpy(side + (t * 2 + head) * sizeof value, &value, sizeof value);
      }
    }
  }
  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    const TopRows& top_rows = question.top_rows;
    const auto scores = scratch.make<float>(top_rows.last - top_rows.first);
    for (uint32_t row = top_rows.first; row < top_rows.last; ++row)
      std::memcpy(&scores[row - top_rows.first],
                  question.rows.summary(row / 8) + row % 8 * sizeof(float), sizeof(float));
    const auto taken = highest(tried_kernels(), scores, top_rows.take, scratch);
    const auto rows = scratch.make<uint32_t>(taken.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = top_rows.first + taken[i];
    choice.rows = rows;
  }
  uint64_t choice_bytes(const TopRows& top_rows, uint32_t) const override {
    return (top_rows.last - top_rows.first) * sizeof(float);
  }
};

// Runs steps whose tokens have distinct inputs, and checks which rows are shown.
struct SideRows {
  void step(std::vector<Slot> slots, const Kept* kept = nullptr, bool commit = true) {
    auto begun = store->begin({slots});
    ASSERT_TRUE(begun.ok());
    uint32_t tokens = 0;
    for (const Slot& slot : slots) tokens += slot.fresh;
    std::vector<float> x(tokens * 3), rows(tokens * 2 * 8, 1);
    for (uint32_t t = 0; t < tokens; ++t) x[t * 3] = static_cast<float>((next + t) * 37 % 101);
    for (uint32_t layer = 0; layer < 2; ++layer) {
      (*begun)->facets().inputs->inputs(layer, x.data(), std::vector<uint32_t>(tokens));
      (*begun)->write(layer, rows.data(), rows.data());
      for (uint32_t s = 0; s < slots.size(); ++s)
        for (uint32_t head = 0; head < 2; ++head) expect(**begun, slots[s].seq, s, layer, head);
    }
    next += tokens;
    if (!commit) return;
    const Kept all = Kept::all({slots});
    const Kept& keep = kept != nullptr ? *kept : all;
    (*begun)->commit(keep);
    uint32_t first = 0;
    for (size_t s = 0; s < slots.size(); first += slots[s++].fresh)
      for (const uint32_t row : keep.rows[s]) twin[slots[s].seq].push_back(x[(first + row) * 3]);
  }

  void expect(Step& step, SeqId seq, uint32_t slot, uint32_t layer, uint32_t head) {
    const std::vector<float>& values = twin[seq];
    const TopRows top_rows = kTriedSelection.of(static_cast<uint32_t>(values.size()));
    base::Arena scratch;
    kernels::View view;
    step.view(query_of(slot, layer, head), scratch, view);
    Rows expected, order;
    for (uint32_t row = 0; row < values.size(); ++row)
      (row < top_rows.first || row >= top_rows.last ? expected : order).push_back(row);
    if (layer >= 1 && !top_rows.all()) {
      std::stable_sort(order.begin(), order.end(), [&](Row a, Row b) {
        return head == 0 ? values[a] > values[b] : values[a] < values[b];
      });
      order.resize(top_rows.take);
    }
    expected.insert(expected.end(), order.begin(), order.end());
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(positions(view), expected);
  }

  std::unique_ptr<Store> store;
  std::map<SeqId, std::vector<float>> twin;
  uint32_t next = 1;
};

TEST(SideRows, FollowTheirRowsThroughForksDroppedStepsAndPaths) {
  for (const char* layout : {"virtual", "paged:block=7", "bmc:r=3"}) {
    SCOPED_TRACE(layout);
    kv::Setup setup = {.shape = {.layers = 2, .kv_heads = 2, .head_dim = 8, .max_tokens = 200}};
    setup.select.model_dim = 3;
    const Spec spec = parse_spec(layout).value();
    SideRows t;
    t.store = make_select_store(setup, {*find_strategy(spec.name), spec},
                                std::make_unique<Largest>(kTriedSelection))
                  .value();
    const std::vector<Token> prompt(30, 4);
    const SeqId a = t.store->open(prompt).seq;
    t.step({{.seq = a, .fresh = 30, .tokens = prompt}});
    EXPECT_EQ(t.store->open(prompt).cached, 0u);
    const SeqId b = t.store->open({}).seq;
    t.step({{b, 40}, {a, 1}});
    t.step({{a, 5}, {b, 3}}, nullptr, false);
    const SeqId c = t.store->fork(a).value();
    t.twin[c] = t.twin[a];
    const Kept path = {.rows = {{0, 2, 5}, {1}}};
    t.step({{a, 6}, {c, 2}}, &path);
    for (int i = 0; i < 9; ++i) t.step({{c, 1}, {a, 1}, {b, 2}});
    uint64_t mapped = 0;
    for (const MapEntry& piece : map_of(*t.store)) mapped += piece.bytes;
    EXPECT_EQ(mapped, t.store->usage().allocated_bytes);
    for (const auto& [seq, values] : t.twin) t.store->close(seq);
  }
}

class Counting final : public Largest {
 public:
  Counting(const Selection& selection, uint32_t& choices) : Largest(selection), made_(choices) {}
  void choose(const SelectRequest& question, base::Arena& scratch,
              SelectedRows& choice) const override {
    ++made_;
    Largest::choose(question, scratch, choice);
  }

 private:
  uint32_t& made_;
};

TEST(SideRows, ChooseBeforeTheQueriesAreThereOnlyWhereRowsAreReadAhead) {
  for (const bool loads : {false, true}) {
    kv::Setup setup = {.shape = {.layers = 2, .kv_heads = 2, .head_dim = 8, .max_tokens = 200}};
    setup.tier.spec = parse_spec(loads ? "ram:size=16MiB" : "ram:size=16MiB,access=copy").value();
    const TierOptions options = read_tier(*setup.tier.spec).value();
    uint32_t choices = 0;
    const auto store = make_select_store(setup, options, make_tier(options, 512).value(),
                                         std::make_unique<Counting>(Selection{.rows = 8}, choices))
                           .value();
    const SeqId seq = store->open({}).seq;
    const std::vector<float> floats(20 * 2 * 8, 1);
    for (const uint32_t fresh : {20U, 1U}) {
      const Slot slot = {.seq = seq, .fresh = fresh};
      std::vector<uint32_t> positions(fresh);
      std::iota(positions.begin(), positions.end(), store->length(seq));
      const auto step = store->begin({{&slot, 1}}).value();
      for (uint32_t layer = 0; layer < 2; ++layer) {
        step->facets().inputs->inputs(layer, floats.data(), positions);
        step->write(layer, floats.data(), floats.data());
        base::Arena scratch;
        kernels::View view;
        step->view({.layer = layer, .q = floats.data(), .q_stride = 8}, scratch, view);
      }
      step->commit(Kept::all({{&slot, 1}}));
    }
    EXPECT_EQ(choices, loads ? 2U : 2U + 4U) << "views of one head, and all heads beforehand";
  }
}

}  // namespace
}  // namespace kvick::kv::test
