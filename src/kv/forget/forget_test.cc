// Compares policies that forget with their definitions.

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "kv/testing/cases.h"
#include "kv/testing/shown_some.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {.layers = 2,
                          .kv_heads = 2,
                          .head_dim = 8,
                          .max_tokens = 400,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};

// Returns which of all rows ever committed a view of one head shows, oldest first.
Rows shown(const kernels::View& view, const Rows& all, uint32_t layer, uint32_t head) {
  std::map<std::vector<std::byte>, Row> number;
  for (const Row row : all) number[bytes_of(kShape, {row}, layer, head, true)] = row;
  Rows rows;
  for (const kernels::Segment& segment : view.past)
    for (const kernels::Run& run : segment.runs)
      for (uint32_t i = 0; i < run.rows; ++i) {
        const std::byte* at = segment.v + size_t{run.row + i} * segment.v_stride;
        rows.push_back(number.at({at, at + kShape.row_bytes(true)}));
      }
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(Streaming, KeepsTheSinksAndTheNewestRows) {
  for (const char* budget : {"20", "0.3,least=0"}) {
    Pair p(fmt::format("virtual streaming:sinks=3,budget={}", budget), kShape);
    const SeqId a = p.open();
    for (const uint32_t rows : {1U, 7U, 40U, 1U, 1U, 2U, 100U, 3U, 1U}) {
      p.add(a, rows);
      auto step = p.begin({{a, 2}});
      write_all(*step, kShape, p.fresh);
      const Rows& all = p.twin[a];
      const auto n = static_cast<uint32_t>(all.size());
      const uint32_t share = (n * 3 + 9) / 10;
      const uint32_t left = std::min(n, std::max(4U, budget[0] == '2' ? 20U : share));
      Rows expected(all.begin(), all.begin() + std::min(3U, left));
      expected.insert(expected.end(), all.end() - (left - std::min(3U, left)), all.end());
      base::Arena scratch;
      kernels::View view;
      step->view(query_of(0, 1, 1), scratch, view);
      EXPECT_EQ(shown(view, all, 1, 1), expected) << n;
      EXPECT_EQ(gather(view, kShape, true).size(), (left + 2) * kShape.row_bytes(true));
    }
  }
}

// After `gone` rows were dropped, a query at position p reads the sinks as if it were at p - gone.
TEST(Streaming, TurnsTheQueriesOfTheSinksBackByTheRowsThatAreGone) {
  const std::vector<double> frequency = {1.0, 0.25, 0.01};
  constexpr uint32_t kGroup = 2, kRows = 50, kBudget = 20;
  for (const bool interleaved : {false, true}) {
    kv::Setup setup = test_setup(kShape);
    setup.select.spec = parse_spec(fmt::format("streaming:sinks=3,budget={}", kBudget)).value();
    setup.select.group = kGroup;
    setup.select.rotation = {.frequency = frequency, .dims = 6, .interleaved = interleaved};
    const auto store = std::move(make_store(parse_spec("virtual").value(), setup)).value();
    const SeqId a = store->open({}).seq;
    const Slot prompt = {.seq = a, .fresh = kRows, .tokens = {}},
               next = {.seq = a, .fresh = 2, .tokens = {}};
    auto step = std::move(store->begin({{&prompt, 1}})).value();
    write_all(*step, kShape, Rows(kRows, 1));
    step->commit(Kept::all({{&prompt, 1}}));
    step = std::move(store->begin({{&next, 1}})).value();
    write_all(*step, kShape, {2, 3});
    const Query query = query_of(0, 1, 0);
    base::Arena scratch;
    kernels::View view;
    step->view(query, scratch, view);
    ASSERT_EQ(view.past.size(), 2U);
    ASSERT_NE(view.past[0].q, nullptr);
    EXPECT_EQ(view.past[1].q, nullptr);
    for (uint32_t i = 0; i < 2 * kGroup; ++i) {
      const float* q = query.q + i / kGroup * query.q_stride + i % kGroup * kShape.head_dim;
      const float* turned = view.past[0].q + i * kShape.head_dim;
      for (uint32_t pair = 0; pair < 3; ++pair) {
        const uint32_t x = interleaved ? 2 * pair : pair, y = interleaved ? x + 1 : pair + 3;
        const double angle = -frequency[pair] * (kRows - kBudget);
        EXPECT_NEAR(turned[x], q[x] * std::cos(angle) - q[y] * std::sin(angle), 1e-5);
        EXPECT_NEAR(turned[y], q[x] * std::sin(angle) + q[y] * std::cos(angle), 1e-5);
      }
      EXPECT_EQ(turned[6], q[6]);
      EXPECT_EQ(turned[7], q[7]);
    }
  }
}

TEST(Streaming, GoesOnPastTheContextIfTheContextHoldsItsRows) {
  const auto most_of = [](const std::string& select, const Shape& shape) {
    const Pair p("virtual " + select, shape);
    const kv::Setup setup = setup_for("virtual " + select, shape);
    EXPECT_EQ(p.store->most_tokens(), info_of(parse_spec("virtual").value(), setup).most_tokens);
    return p.store->most_tokens();
  };
  Shape shape = kShape;
  EXPECT_EQ(most_of("streaming:budget=20", shape), UINT32_MAX);
  EXPECT_EQ(most_of("streaming:budget=0.25", shape), shape.max_tokens);
  EXPECT_EQ(most_of("h2o:budget=20", shape), shape.max_tokens);
  shape.max_tokens = 20;
  EXPECT_EQ(most_of("streaming:budget=20", shape), UINT32_MAX);
  EXPECT_EQ(most_of("streaming:budget=21", shape), 20U);
  EXPECT_EQ(most_of("streaming:budget=3,sinks=20", shape), 20U);
}

// One head by the definition: a list of rows with the attention paid to each.
struct Hitters {
  std::vector<std::pair<Row, double>> rows;  // oldest first

  void end_step(const Rows& kept, const std::map<Row, float>& probs, uint32_t budget) {
    for (const Row row : kept) rows.emplace_back(row, 0);
    for (auto& [row, mass] : rows) mass += probs.at(row);
    while (rows.size() > budget) {
      const auto newest = rows.end() - (budget + 1) / 2;
      rows.erase(std::min_element(
          rows.begin(), newest, [](const auto& a, const auto& b) { return a.second < b.second; }));
    }
  }
  Rows numbers() const {
    Rows all;
    for (const auto& [row, mass] : rows) all.push_back(row);
    return all;
  }
};

TEST(H2o, KeepsTheNewestHalfAndTheRowsThatHadMostAttentionInEachHead) {
  constexpr uint32_t kBudget = 15;
  Pair p(fmt::format("virtual h2o:budget={}", kBudget), kShape);
  const SeqId a = p.open();
  std::map<std::pair<uint32_t, uint32_t>, Hitters> twins;  // by layer and head
  for (uint32_t turn = 0; turn < 60; ++turn) {
    const uint32_t fresh = turn % 7 == 0 ? 20 : 1 + turn % 3;
    auto step = p.begin({{a, fresh}});
    write_all(*step, kShape, p.fresh);
    Kept kept = Kept::all({p.slots});
    if (turn % 4 == 1) kept.rows[0].pop_back();
    const bool dropped = turn % 5 == 3;
    Rows all = p.twin[a], stay;
    for (const uint32_t row : kept.rows[0]) stay.push_back(p.fresh[row]);
    for (uint32_t layer = 0; layer < 2; ++layer)
      for (uint32_t head = 0; head < 2; ++head) {
        base::Arena scratch;
        kernels::View view;
        const Query query = query_of(0, layer, head);
        step->view(query, scratch, view);
        ASSERT_EQ(shown(view, all, layer, head), (twins[{layer, head}].numbers()));
        // A row's probability depends on its number, not on its place: the store reorders rows.
        std::vector<float> probs;
        std::map<Row, float> of;
        const auto give = [&](Row row) {
          of[row] = static_cast<float>((row * 2654435761U ^ turn * 97 ^ layer * 31 ^ head) % 1009);
          probs.push_back(of[row]);
        };
        const Rows known = p.shown(0);
        for (const Row at : find_rows(view, kShape, known, query)) give(known[at]);
        step->facets().observer->observe(query, view, probs);
        if (!dropped) twins[{layer, head}].end_step(stay, of, kBudget);
      }
    if (!dropped) p.commit(*step, kept);
  }
}

// By the definition: a list of rows with their heads and scores; the lowest scores are dropped.
TEST(Kvzap, KeepsTheRowsOfTheHighestScoresWhoseverTheyAre) {
  constexpr uint32_t kBudget = 40, kSinks = 2, kRecent = 6, kDrop = 4, kDim = 8, kHeads = 2;
  struct Scored {
    Row row;
    uint32_t head, pos;  // head: layer * kHeads + head
    float score;
  };
  // together: the number of heads whose rows compete.
  for (const auto& [shared, together] :
       {std::pair("model", 4u), std::pair("layer", kHeads), std::pair("head", 1u)}) {
    SCOPED_TRACE(shared);
    Pair p(fmt::format("virtual kvzap:budget={},sinks={},recent={},drop={},shared={}", kBudget,
                       kSinks, kRecent, kDrop, shared),
           kShape);
    const auto predictor = made_predictor(kShape, PredictorForm::kScores);
    const SeqId a = p.open();
    std::map<uint32_t, std::vector<Scored>> twins;  // by group of heads that compete
    uint32_t tokens = 0, most_of_a_head = 0;
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (uint32_t turn = 0; turn < 80; ++turn) {
      const uint32_t fresh = turn % 9 == 0 ? 30 : 1 + turn % 2;
      auto step = p.begin({{a, fresh}});
      const bool dropped = turn % 5 == 3;
      std::vector<uint32_t> positions(fresh);
      for (uint32_t i = 0; i < fresh; ++i) positions[i] = tokens + i;
      Kept kept = Kept::all({p.slots});
      if (turn % 4 == 2 && fresh > 1) kept.rows[0].erase(kept.rows[0].begin());
      const auto stay = static_cast<uint32_t>(kept.rows[0].size());
      for (uint32_t layer = 0; layer < kShape.layers; ++layer) {
        std::vector<float> x(size_t{fresh} * kDim);
        for (float& one : x) one = normal(random);
        step->facets().inputs->inputs(layer, x.data(), positions);
        for (uint32_t i = 0; i < stay && !dropped; ++i)
          for (uint32_t head = 0; head < kHeads; ++head) {
            const uint32_t row = kept.rows[0][i], number = layer * kHeads + head;
            const float* w = predictor->layers[layer].k.data() + size_t{head} * (kDim + 1);
            double score = w[kDim];
            for (uint32_t d = 0; d < kDim; ++d) score += double{w[d]} * x[row * kDim + d];
            twins[number / together].push_back(
                {p.fresh[row], number, tokens + i, static_cast<float>(score)});
          }
      }
      write_all(*step, kShape, p.fresh);
      if (dropped) continue;
      p.commit(*step, kept);
      tokens += stay;
      // At multiples of `drop` a head has at most budget - drop + 1 rows on average.
      const uint32_t left = std::min(tokens, kBudget - kDrop + 1 + tokens - tokens / kDrop * kDrop);
      const auto lower = [](const Scored& x, const Scored& y) { return x.score < y.score; };
      auto look = p.begin({{a, 1}});
      write_all(*look, kShape, p.fresh);
      for (auto& [group, rows] : twins) {
        while (rows.size() > size_t{left} * together) {
          std::vector<Scored> may_go;
          for (const Scored& one : rows)
            if (one.pos >= kSinks && one.pos < tokens - kRecent) may_go.push_back(one);
          const Scored gone = *std::min_element(may_go.begin(), may_go.end(), lower);
          std::erase_if(rows, [&](const Scored& one) {
            return one.head == gone.head && one.row == gone.row;
          });
        }
        for (uint32_t head = group * together; head < (group + 1) * together; ++head) {
          Rows expected;
          for (const Scored& one : rows)
            if (one.head == head) expected.push_back(one.row);
          std::sort(expected.begin(), expected.end());
          base::Arena scratch;
          kernels::View view;
          look->view(query_of(0, head / kHeads, head % kHeads), scratch, view);
          ASSERT_EQ(shown(view, p.twin[a], head / kHeads, head % kHeads), expected) << turn;
          most_of_a_head = std::max(most_of_a_head, static_cast<uint32_t>(expected.size()));
        }
      }
    }
    EXPECT_GT(tokens, 3 * kBudget);
    EXPECT_EQ(most_of_a_head > kBudget, together > 1);
  }
}

TEST(Kvzap, SaysWhatItNeeds) {
  kv::Setup setup = test_setup(kShape);
  setup.select.model_dim = 8;
  const auto refusal = [&](const char* policy, PredictorForm form) {
    setup.select.spec = parse_spec(policy).value();
    setup.select.predictor = made_predictor(kShape, form);
    return make_store({"virtual", {}}, setup).error().message;
  };
  EXPECT_EQ(refusal("kvzap:file=x", PredictorForm::kHeads),
            "kvzap: the file is a predictor for another policy: kvick train kvzap makes kvzap's");
  EXPECT_EQ(refusal("kvzap:budget=10,drop=16", PredictorForm::kScores),
            "kvzap: drop=16 and sinks=4 together are more than a budget of 10 rows: lower drop");
  EXPECT_EQ(refusal("maple:file=x", PredictorForm::kScores),
            "maple: the file is kvzap's: kvick train distil makes maple's");
  EXPECT_EQ(refusal("loki:file=x", PredictorForm::kScores),
            "loki: the file is a predictor for kvzap: kvick train pca makes loki's");
  setup.select.model_dim = 9;
  EXPECT_EQ(refusal("kvzap:file=x", PredictorForm::kScores),
            "kvzap: the predictor is for 2 layers of 2 KV heads and inputs of 8 values, but this "
            "model has 2, 2 and 9: make its own with kvick train kvzap");
  setup.select.predictor = nullptr;
  EXPECT_EQ(make_store({"virtual", {}}, setup).error().message,
            "kvzap needs a predictor: file=NAME.kvp, which kvick train kvzap makes");
}

// A step of 30 draft tokens would drop rows if all were accepted.
TEST(Forgetting, ARejectedDraftForgetsNothing) {
  for (const char* policy :
       {"streaming:budget=20,sinks=2", "h2o:budget=20", "kvzap:budget=20,drop=1,recent=3",
        "scissorhands:budget=20,drop=5,recent=3"}) {
    SCOPED_TRACE(policy);
    Pair p(fmt::format("virtual {}", policy), kShape);
    const SeqId a = p.open();
    p.add(a, 14);
    const auto rows = [&] {
      const auto step = p.begin({{a, 1}});
      write_all(*step, kShape, p.fresh);
      base::Arena scratch;
      kernels::View view;
      step->view(query_of(0, 1, 0), scratch, view);
      return shown(view, p.twin[a], 1, 0);
    };
    const auto propose = [&](std::vector<uint32_t> kept) {
      const auto step = p.begin({{a, 30}});
      write_all(*step, kShape, p.fresh);
      p.commit(*step, {.rows = {std::move(kept)}});
    };
    EXPECT_EQ(rows(), p.twin[a]);
    propose({});
    EXPECT_EQ(rows(), p.twin[a]);
    propose({0, 29});
    EXPECT_EQ(p.store->length(a), 16u);
    if (std::string(policy).starts_with("scissorhands")) continue;  // has dropped rows at 15 tokens
    EXPECT_EQ(rows(), p.twin[a]);
    p.add(a, 4);
    EXPECT_EQ(rows(), p.twin[a]);
    propose({3});
    EXPECT_EQ(rows().size(), 20u);
  }
}

}  // namespace
}  // namespace kvick::kv::test
