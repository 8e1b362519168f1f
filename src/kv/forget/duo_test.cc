// Compares duo with its definition: heads give up their oldest rows in ascending order of scores.

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include "kv/testing/shown_some.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kLayers = 4, kHeads = 2, kNumbers = kLayers * kHeads;
constexpr Shape kShape = {.layers = kLayers,
                          .kv_heads = kHeads,
                          .head_dim = 8,
                          .max_tokens = 1000,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};

// A file's scores, [layers][heads].
std::shared_ptr<const Predictor> scores_of(const std::vector<float>& scores) {
  auto made = std::make_shared<Predictor>();
  made->shape = {.layers = kLayers,
                 .heads = kHeads,
                 .kv_heads = kHeads,
                 .head_dim = kShape.head_dim,
                 .dim = kShape.head_dim,
                 .rank = 1,
                 .form = PredictorForm::kRetrieval};
  for (uint32_t layer = 0; layer < kLayers; ++layer)
    made->layers.push_back({.q = {}, .k = {scores[layer * kHeads], scores[layer * kHeads + 1]}});
  return made;
}

kv::Setup setup_of(const std::string& policy, const std::vector<float>& scores) {
  kv::Setup setup = test_setup(kShape);
  setup.select.spec = parse_spec(policy).value();
  setup.select.predictor = scores_of(scores);
  return setup;
}

// Options of the policy, as text and as numbers, and the scores.
struct Tried {
  const char* policy;
  uint32_t sinks = 0, recent = 0, drop = 1;
  uint32_t rows = 0, percent = 0;  // the budget: rows, or a share
  std::vector<float> scores;
  bool half = false;  // the newest rows get half of the budget, not `recent`

  // Rows that a head keeps of so many tokens, on average over all heads.
  uint32_t left(uint32_t tokens) const {
    const uint32_t at = tokens / drop * drop;  // when rows were last dropped
    const uint32_t budget = std::max(rows, (at * percent + 99) / 100);
    return std::min(tokens, budget - drop + 1 + tokens - at);
  }
  // Newest rows that always stay.
  uint32_t newest(uint32_t tokens) const { return half ? (left(tokens) + 1) / 2 : recent; }
};

// One sequence in a store, and its rows by the definition.
class Player {
 public:
  explicit Player(const Tried& tried)
      : tried_(tried),
        store_(
            std::move(make_store({"virtual", {}}, setup_of(tried.policy, tried.scores))).value()),
        seq_(store_->open({}).seq) {}

  // Runs a step of `fresh` rows and keeps those of `kept`.
  void add(uint32_t fresh, const std::vector<uint32_t>& kept) {
    const Slot slot = {.seq = seq_, .fresh = fresh, .tokens = {}};
    const auto step = std::move(store_->begin({{&slot, 1}})).value();
    Rows rows;
    for (uint32_t i = 0; i < fresh; ++i) rows.push_back(++last_row_);
    write_all(*step, kShape, rows);
    step->commit({.rows = {kept}});
    for (const uint32_t row : kept) {
      for (Held& held : heads_) held.push_back(static_cast<uint32_t>(all_.size()));
      all_.push_back(rows[row]);
    }
    give_up();
  }
  void add(uint32_t fresh) {
    std::vector<uint32_t> kept(fresh);
    std::iota(kept.begin(), kept.end(), 0U);
    add(fresh, kept);
  }
  void fork() { seq_ = store_->fork(seq_).value(); }

  // Returns the positions that each head shows, ascending.
  std::vector<std::vector<uint32_t>> shown() {
    const Slot slot = {.seq = seq_, .fresh = 1, .tokens = {}};
    const auto step = std::move(store_->begin({{&slot, 1}})).value();
    const Rows fresh = {last_row_ + 1};
    write_all(*step, kShape, fresh);
    Rows rows = all_;
    rows.push_back(fresh[0]);
    std::vector<std::vector<uint32_t>> heads;
    base::Arena scratch;
    kernels::View view;
    for (uint32_t number = 0; number < kNumbers; ++number) {
      const Query query = query_of(0, number / kHeads, number % kHeads);
      step->view(query, scratch, view);
      std::vector<uint32_t> found = find_rows(view, kShape, rows, query);
      EXPECT_EQ(found.back(), all_.size());
      found.pop_back();
      std::sort(found.begin(), found.end());
      heads.push_back(found);
    }
    return heads;
  }
  const std::vector<std::vector<uint32_t>>& expected() const { return heads_; }
  uint32_t tokens() const { return static_cast<uint32_t>(all_.size()); }
  Store& store() { return *store_; }

 private:
  using Held = std::vector<uint32_t>;  // positions, ascending

  void give_up() {
    const uint32_t tokens = this->tokens();
    size_t held = 0;
    for (const Held& head : heads_) held += head.size();
    while (held > size_t{tried_.left(tokens)} * kNumbers) {
      // The oldest row that may go, of the head with the lowest score that has such a row; of
      // equal heads that whose row is oldest.
      uint32_t from = kNumbers, oldest = 0;
      for (uint32_t number = 0; number < kNumbers; ++number) {
        const Held& head = heads_[number];
        const auto row = std::lower_bound(head.begin(), head.end(), tried_.sinks);
        if (row == head.end() || *row + tried_.newest(tokens) >= tokens) continue;
        const bool first = from == kNumbers || tried_.scores[number] < tried_.scores[from] ||
                           (tried_.scores[number] == tried_.scores[from] && *row < oldest);
        if (first) {
          from = number;
          oldest = *row;
        }
      }
      ASSERT_LT(from, kNumbers) << "no row may go";
      std::erase(heads_[from], oldest);
      --held;
    }
  }

  Tried tried_;
  std::unique_ptr<Store> store_;
  SeqId seq_;
  Rows all_;  // by position
  std::vector<Held> heads_ = std::vector<Held>(kNumbers);
  Row last_row_ = 0;
};

const std::vector<float> kScores = {0.2F, 0.7F, 0.1F, 0.9F, 0.4F, 0.3F, 0.8F, 0.05F};

TEST(Duo, HeadsWithTheLowestScoresGiveUpTheirOldestRowsFirst) {
  const Tried all[] = {{.policy = "duo:budget=30,sinks=2,recent=5,drop=4",
                        .sinks = 2,
                        .recent = 5,
                        .drop = 4,
                        .rows = 30,
                        .scores = kScores},
                       {.policy = "duo:budget=0.4,least=1,sinks=1,recent=3,drop=1",
                        .sinks = 1,
                        .recent = 3,
                        .drop = 1,
                        .percent = 40,
                        .scores = kScores},
                       {.policy = "duo:budget=0.5,least=40,sinks=3,recent=8,drop=16",
                        .sinks = 3,
                        .recent = 8,
                        .drop = 16,
                        .rows = 40,
                        .percent = 50,
                        .scores = kScores},
                       {.policy = "duo:budget=0.5,least=40,sinks=3,drop=4",
                        .sinks = 3,
                        .drop = 4,
                        .rows = 40,
                        .percent = 50,
                        .scores = kScores,
                        .half = true},
                       // Heads with equal scores give up rows of the same age.
                       {.policy = "duo:budget=30,sinks=2,recent=5,drop=4",
                        .sinks = 2,
                        .recent = 5,
                        .drop = 4,
                        .rows = 30,
                        .scores = {0.5F, 0, 0.5F, 0, 0, 0.5F, 1, 0}}};
  const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  for (const Tried& tried : all) {
    SCOPED_TRACE(tried.policy);
    Player p(tried);
    p.add(60);
    ASSERT_EQ(p.shown(), p.expected());
    bool uneven = false;
    for (uint32_t turn = 0; turn < 50; ++turn) {
      if (turn % 7 == 2)
        p.add(5, {0, 2, 3});  // draft tokens, two of them rejected
      else
        p.add(turn % 11 == 5 ? 30 : 1 + turn % 3);
      if (turn == 25) p.fork();
      ASSERT_EQ(p.shown(), p.expected()) << turn;
      const auto& heads = p.expected();
      const auto [least, most] = std::minmax_element(heads.begin(), heads.end(), fewer);
      uneven |= most->size() > least->size() + 10;
    }
    EXPECT_TRUE(uneven);
  }
}

// Behind n tokens a budget of b rows has room for about (b - w) / (n - w) of the heads.
TEST(Duo, TheBudgetSaysHowManyHeadsKeepAllRows) {
  constexpr uint32_t kTokens = 100, kBudget = 40, kSinks = 2, kRecent = 8;
  Player p({.policy = "duo:budget=40,sinks=2,recent=8,drop=1",
            .sinks = kSinks,
            .recent = kRecent,
            .drop = 1,
            .rows = kBudget,
            .scores = kScores});
  p.add(kTokens);
  std::vector<uint32_t> order(kNumbers);
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [](uint32_t a, uint32_t b) { return kScores[a] > kScores[b]; });
  constexpr uint32_t kWindow = kSinks + kRecent;
  constexpr uint32_t kFull = kNumbers * (kBudget - kWindow) / (kTokens - kWindow);
  static_assert(kFull == 2);
  const std::vector<std::vector<uint32_t>> shown = p.shown();
  uint32_t rows = 0;
  for (uint32_t i = 0; i < kNumbers; ++i) {
    const std::vector<uint32_t>& head = shown[order[i]];
    rows += static_cast<uint32_t>(head.size());
    if (i < kFull) {
      EXPECT_EQ(head.size(), kTokens) << i;
    } else if (i > kFull) {
      EXPECT_EQ(head, (std::vector<uint32_t>{0, 1, 92, 93, 94, 95, 96, 97, 98, 99})) << i;
    }
  }
  EXPECT_EQ(rows, kNumbers * kBudget);
}

TEST(Duo, CountsAsManyRowsAsItsBudgetAndNoScores) {
  const Tried tried = {.policy = "duo:budget=32,sinks=2,recent=8,drop=1",
                       .sinks = 2,
                       .recent = 8,
                       .drop = 1,
                       .rows = 32,
                       .scores = kScores};
  Player p(tried);
  p.add(200);
  EXPECT_EQ(p.store().usage().used_bytes, 32 * kShape.token_bytes());
  kv::Setup setup = setup_of(tried.policy, kScores);
  const auto bytes = [&](uint32_t step) {
    return cost_of({"virtual", {}}, setup, {.tokens = 200, .step = step}).value().fast_bytes;
  };
  EXPECT_EQ(p.store().usage().allocated_bytes, bytes(1));
  // Of each row of all heads its position, score and number, and the ends of the heads.
  const uint64_t scratch = uint64_t{kNumbers} * ((32 + 50) * 12 + 8);
  EXPECT_EQ(bytes(50) - bytes(1), 50 * kShape.token_bytes() + scratch) << "no scores";
  base::ThreadPool pool(3);
  setup.compute.pool = &pool;
  EXPECT_EQ(bytes(50) - bytes(1), 50 * kShape.token_bytes() + scratch) << "one worker chooses";
  setup.compute.pool = nullptr;
  setup.select.predictor = nullptr;  // as kvick plan counts
  EXPECT_EQ(p.store().usage().allocated_bytes, bytes(1));
}

TEST(Duo, SaysWhatItNeeds) {
  const auto refusal = [](const char* policy, std::shared_ptr<const Predictor> file) {
    kv::Setup setup = setup_of(policy, kScores);
    setup.select.predictor = std::move(file);
    return make_store({"virtual", {}}, setup).error().message;
  };
  EXPECT_EQ(refusal("duo", nullptr),
            "duo needs the scores of KV heads: file=NAME.kvp, which kvick train duo makes");
  EXPECT_EQ(refusal("duo:file=x", made_predictor(kShape, PredictorForm::kScores)),
            "duo: the file is a predictor for another policy: kvick train duo makes duo's");
  EXPECT_EQ(refusal("duo:file=x,budget=60,recent=40", scores_of(kScores)),
            "duo: sinks=16, recent=40 and drop=16 together are more than a budget of 60 rows: "
            "lower them");
  EXPECT_EQ(refusal("duo:file=x,budget=20", scores_of(kScores)),
            "duo: sinks=16 and drop=16 together are more than a budget of 20 rows: lower them");
  Shape other = kShape;
  other.layers = 3;
  EXPECT_EQ(refusal("duo:file=x", made_predictor(other, PredictorForm::kRetrieval)),
            "duo: the file has scores of 3 layers of 2 KV heads, but this model has 4 and 2: make "
            "its own with kvick train duo");
  EXPECT_EQ(refusal("kvzap:file=x", scores_of(kScores)),
            "kvzap: the file is a predictor for another policy: kvick train kvzap makes kvzap's");
  EXPECT_EQ(refusal("maple:file=x", scores_of(kScores)),
            "maple: the file is duo's: kvick train distil makes maple's");
  EXPECT_EQ(refusal("loki:file=x", scores_of(kScores)),
            "loki: the file is duo's: kvick train pca makes loki's");
}

}  // namespace
}  // namespace kvick::kv::test
