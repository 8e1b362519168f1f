// Compares snapkv with its definition: all probabilities in plain lists, by position.

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

#include "kv/testing/shown_some.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kLayers = 2, kHeads = 2, kNumbers = kLayers * kHeads;
constexpr Shape kShape = {.layers = kLayers,
                          .kv_heads = kHeads,
                          .head_dim = 8,
                          .max_tokens = 1000,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};

// Options of the policy, as text and as numbers.
struct Tried {
  const char* text;
  uint32_t rows = 0, percent = 0;  // the budget: rows, or a share and its least rows
  uint32_t sinks = 0, window = 0, drop = 1, pool = 1;
  bool mean = false, ada = false;
  uint32_t safe_percent = 20;

  // Rows that a head keeps of so many tokens, on average over heads that compete.
  uint32_t left(uint32_t tokens) const {
    const uint32_t at = tokens / drop * drop;  // when rows were last dropped
    const uint32_t budget = std::max(rows, (at * percent + 99) / 100);
    return std::min(tokens, budget - drop + 1 + tokens - at);
  }
};

struct Held {
  Row row;
  uint32_t pos;
};
// One head. queries: by position, what it paid to each row; empty if it was not observed.
struct Head {
  std::vector<Held> rows;
  std::vector<std::map<Row, double>> queries;

  Rows numbers() const {
    Rows all;
    for (const Held& held : rows) all.push_back(held.row);
    return all;
  }
  double paid(Row row, uint32_t window) const {
    double sum = 0;
    for (size_t p = queries.size() - std::min<size_t>(window, queries.size()); p < queries.size();
         ++p) {
      const auto found = queries[p].find(row);
      if (found != queries[p].end()) sum += found->second;
    }
    return sum;
  }
  double pooled(uint32_t pos, const Tried& tried) const {
    double best = 0, sum = 0;
    for (const Held& held : rows) {
      const uint32_t apart = held.pos > pos ? held.pos - pos : pos - held.pos;
      if (apart > tried.pool / 2 || held.pos + tried.window >= queries.size()) continue;
      const double paid = this->paid(held.row, tried.window);
      best = std::max(best, paid);
      sum += paid;
    }
    return tried.mean ? sum : best;
  }
};

struct Rival {
  double score;
  uint32_t pos, head;
  auto operator<=>(const Rival&) const = default;
};

// Drops rows of these heads, which compete, until the budget holds.
void choose(std::span<Head> heads, const Tried& tried) {
  const auto tokens = static_cast<uint32_t>(heads[0].queries.size());
  const uint32_t left = tried.left(tokens);
  size_t held = 0;
  std::vector<Rival> rivals;
  for (uint32_t h = 0; h < heads.size(); ++h) {
    held += heads[h].rows.size();
    std::vector<Rival> own;
    for (const Held& row : heads[h].rows)
      if (row.pos >= tried.sinks && row.pos + tried.window < tokens)
        own.push_back({heads[h].pooled(row.pos, tried), row.pos, h});
    std::sort(own.begin(), own.end());
    size_t safe = 0;
    if (tried.ada && left > tried.sinks + tried.window)
      safe = (left - tried.sinks - tried.window) * tried.safe_percent / 100;
    own.resize(own.size() - std::min(own.size(), safe));
    rivals.insert(rivals.end(), own.begin(), own.end());
  }
  if (held <= left * heads.size()) return;
  std::sort(rivals.begin(), rivals.end());
  rivals.resize(held - left * heads.size());
  for (const Rival& gone : rivals)
    std::erase_if(heads[gone.head].rows, [&](const Held& row) { return row.pos == gone.pos; });
}

// A sequence beside its twin.
struct Player {
  Pair& pair;
  const Tried& tried;
  SeqId seq{};
  std::vector<Head> heads = std::vector<Head>(kNumbers);
  bool uneven = false;  // whether the first head ever had more rows than the second

  // Compares what the step shows, observes it and, if the step will be committed, tells the twin.
  void observe(Step& step, const std::vector<uint32_t>* kept, std::mt19937& random) {
    const auto fresh = static_cast<uint32_t>(pair.fresh.size());
    const uint32_t apart = std::min(fresh, tried.window);
    for (uint32_t number = 0; number < kNumbers; ++number) {
      Head& head = heads[number];
      base::Arena scratch;
      kernels::View view;
      const Query query = query_of(0, number / kHeads, number % kHeads);
      step.view(query, scratch, view);
      const Rows known = pair.shown(0);
      Rows rows;
      for (const Row at : find_rows(view, kShape, known, query)) rows.push_back(known[at]);
      Rows past(rows.begin(), rows.end() - fresh);
      std::sort(past.begin(), past.end());
      ASSERT_EQ(past, head.numbers());
      // Whole numbers, whose sums are exact. The second head of a layer scores lower.
      std::vector<float> probs;
      std::vector<std::map<Row, double>> of(fresh);
      for (uint32_t token = fresh - apart; token < fresh; ++token)
        for (const Row row : rows) {
          probs.push_back(static_cast<float>(random() % (query.head == 0 ? 1009 : 300)));
          of[token][row] = probs.back();
        }
      ASSERT_EQ(step.facets().observer->apart(query.layer), tried.window);
      step.facets().observer->observe(query, view, probs);
      if (kept == nullptr) continue;
      for (const uint32_t token : *kept) {
        head.rows.push_back({pair.fresh[token], static_cast<uint32_t>(head.queries.size())});
        head.queries.push_back(of[token]);
      }
    }
  }

  void turn(uint32_t fresh, std::mt19937& random) {
    const auto step = pair.begin({{seq, fresh}});
    ASSERT_NE(step, nullptr) << pair.shortage.what;
    write_all(*step, kShape, pair.fresh);
    Kept kept = Kept::all({pair.slots});
    const uint32_t dice = random() % 6;
    if (dice == 1) kept.rows[0].resize(random() % (fresh + 1));  // a chain
    if (dice == 2)
      std::erase_if(kept.rows[0], [&](uint32_t) { return random() % 2 == 0; });  // tree
    observe(*step, dice == 0 ? nullptr : kept.rows.data(), random);
    if (dice == 0 || testing::Test::HasFatalFailure()) return;  // the step is dropped
    pair.commit(*step, kept);
    const size_t together = tried.ada ? kHeads : 1;
    for (size_t first = 0; first < kNumbers; first += together)
      choose(std::span(heads).subspan(first, together), tried);
    uneven = uneven || heads[0].rows.size() > heads[1].rows.size();
  }
  void play(uint32_t turns, std::mt19937& random) {
    for (uint32_t i = 0; i < turns && !testing::Test::HasFatalFailure(); ++i)
      turn(i % 9 == 0 ? 15 + random() % 40 : 1 + random() % 4, random);
  }
};

const Tried kTried[] = {
    {.text = "budget=40,window=6,drop=4", .rows = 40, .window = 6, .drop = 4, .pool = 7},
    {.text = "budget=40,sinks=3,window=20,drop=1,pool=1", .rows = 40, .sinks = 3, .window = 20},
    {.text = "budget=33,window=1,drop=16,pool=5,pooling=mean",
     .rows = 33,
     .window = 1,
     .drop = 16,
     .pool = 5,
     .mean = true},
    {.text = "budget=0.3,least=20,window=8,drop=1,pool=3",
     .rows = 20,
     .percent = 30,
     .window = 8,
     .pool = 3},
    {.text = "budget=40,sinks=2,window=6,drop=4,heads=ada",
     .rows = 40,
     .sinks = 2,
     .window = 6,
     .drop = 4,
     .pool = 7,
     .ada = true},
    {.text = "budget=50,window=9,drop=1,pool=1,heads=ada,safeguard=0.5",
     .rows = 50,
     .window = 9,
     .ada = true,
     .safe_percent = 50}};

TEST(Snapkv, KeepsTheWindowAndTheRowsThatItsQueriesPaidMostTo) {
  for (const Tried& tried : kTried) {
    SCOPED_TRACE(tried.text);
    Pair pair(fmt::format("virtual snapkv:{}", tried.text), kShape);
    std::mt19937 random(11);
    Player one = {.pair = pair, .tried = tried, .seq = pair.open()};
    one.play(40, random);
    // A fork goes on with the rows, and with the queries that were in the window.
    Player two = one;
    two.seq = pair.fork(one.seq);
    one.play(20, random);
    pair.close(one.seq);
    two.play(20, random);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    EXPECT_GT(two.heads[0].queries.size(), 2 * two.heads[0].rows.size());
    const size_t high = two.heads[0].rows.size(), low = two.heads[1].rows.size();
    EXPECT_EQ(two.uneven, tried.ada);
    EXPECT_EQ(high + low, 2 * tried.left(static_cast<uint32_t>(two.heads[0].queries.size())));
    if (!tried.ada) continue;
    // The head that scores lower has more than what stays whatever it scores.
    EXPECT_GT(low, tried.sinks + tried.window);
  }
}

// Six tokens have room; the seventh makes a row go. The last two queries find row 2 worst, the last
// one alone row 3, the last three row 4.
TEST(Snapkv, AWindowMayLieInTwoPieces) {
  for (const uint32_t last : {1U, 2U}) {
    Pair pair("virtual snapkv:budget=6,window=2,drop=1,pool=1", kShape);
    const SeqId seq = pair.open();
    const auto add = [&](uint32_t fresh, const std::vector<float>& probs) {
      const auto step = pair.begin({{seq, fresh}});
      write_all(*step, kShape, pair.fresh);
      for (uint32_t number = 0; number < kNumbers; ++number) {
        base::Arena scratch;
        kernels::View view;
        const Query query = query_of(0, number / kHeads, number % kHeads);
        step->view(query, scratch, view);
        step->facets().observer->observe(query, view, probs);
      }
      pair.commit(*step, Kept::all({pair.slots}));
    };
    if (last == 1) {
      add(6, {9, 9, 9, 9, 0, 0, 4, 4, 0, 4, 4, 1});
      add(1, {1, 1, 2, 0, 1, 1, 1});
    } else {
      add(5, {9, 9, 9, 9, 0, 9, 9, 9, 9, 0});
      add(2, {4, 4, 0, 4, 4, 1, 0, 1, 1, 2, 0, 1, 1, 1});
    }
    const auto look = pair.begin({{seq, 1}});
    write_all(*look, kShape, pair.fresh);
    base::Arena scratch;
    kernels::View view;
    const Query query = query_of(0, 1, 0);
    look->view(query, scratch, view);
    Rows past = find_rows(view, kShape, pair.shown(0), query);
    past.pop_back();  // the fresh row
    std::sort(past.begin(), past.end());
    EXPECT_EQ(past, (Rows{0, 1, 3, 4, 5, 6})) << last;
  }
}

TEST(Snapkv, CountsTheFloatsOfItsWindow) {
  const auto bytes_of_window = [](uint32_t window) {
    Pair pair(fmt::format("virtual snapkv:budget=64,drop=1,window={}", window), kShape);
    pair.add(pair.open(), 64);
    return pair.store->usage().allocated_bytes;
  };
  EXPECT_EQ(bytes_of_window(32) - bytes_of_window(8), uint64_t{kNumbers} * 64 * 24 * sizeof(float));
}

// A step's rows, their scores and its scratch count until the step ends, against the cap too.
TEST(Snapkv, CountsTheScoresOfAStepAsOtherPoliciesDo) {
  constexpr uint32_t kRows = 32, kPiece = 20;
  // apart: queries whose probabilities a step keeps one by one; 1: their sum.
  for (const auto& [policy, apart] :
       {std::pair("snapkv:budget=32,drop=1,window=8", 8U), std::pair("h2o:budget=32", 1U),
        std::pair("streaming:budget=32", 0U)}) {
    SCOPED_TRACE(policy);
    const std::string text = fmt::format("virtual {}", policy);
    // The scratch of a commit: of each row of a head its position, score and number; with a window
    // also position and score in order, and the floats of a window. Then the ends of the head.
    const bool window = apart > 1;
    const uint64_t scratch = (kRows + kPiece) * (window ? 20U : 12U) + 8 + (window ? apart * 4 : 0);
    const uint64_t step_bytes = kPiece * kShape.token_bytes() +
                                uint64_t{kNumbers} * (kRows + kPiece) * apart * sizeof(float) +
                                scratch;
    Pair pair(text, kShape);
    const SeqId seq = pair.open();
    for (uint32_t i = 0; i < kRows / 8; ++i) pair.add(seq, 8);
    const uint64_t held = pair.store->usage().allocated_bytes;
    pair.begin({{seq, kPiece}}).reset();
    EXPECT_EQ(pair.store->usage().allocated_bytes, held) << "a dropped step gives them back";
    const auto step = pair.begin({{seq, kPiece}});
    EXPECT_EQ(pair.store->usage().allocated_bytes, held + step_bytes);
    write_all(*step, kShape, pair.fresh);
    pair.observe(*step);
    pair.commit(*step, Kept::all({pair.slots}));
    EXPECT_EQ(pair.store->usage().allocated_bytes, held) << "a commit gives them back";
    const Cost cost =
        cost_of(spec_of(text), setup_for(text, kShape), {.tokens = kRows + kPiece, .step = kPiece})
            .value();
    EXPECT_EQ(cost.fast_bytes, held + step_bytes);
    for (const uint64_t lacks : {0U, 1U}) {
      Pair capped(text, kShape, held + step_bytes - lacks);
      const SeqId one = capped.open();
      for (uint32_t i = 0; i < kRows / 8; ++i) capped.add(one, 8);
      EXPECT_EQ(capped.begin({{one, kPiece}}) != nullptr, lacks == 0) << capped.shortage.what;
    }
  }
}

// More than 16 groups of heads are chosen from by all workers.
TEST(Forgetting, CountsTheScratchOfEachWorkerThatChooses) {
  Shape shape = kShape;
  shape.layers = 20;
  kv::Setup setup = test_setup(shape);
  setup.select.spec = parse_spec("h2o:budget=32").value();
  const auto bytes = [&] {
    return cost_of({"virtual", {}}, setup, {.tokens = 52, .step = 20}).value().fast_bytes;
  };
  const uint64_t alone = bytes();
  base::ThreadPool pool(3);
  setup.compute.pool = &pool;
  EXPECT_EQ(bytes() - alone, 2U * (52 * 12 + 8));
  const auto store = make_store({"virtual", {}}, setup).value();
  const SeqId seq = store->open({}).seq;
  const Slot first = {.seq = seq, .fresh = 32}, next = {.seq = seq, .fresh = 20};
  auto step = store->begin({{&first, 1}}).value();
  write_all(*step, shape, Rows(32, 1));
  step->commit(Kept::all({{&first, 1}}));
  step = store->begin({{&next, 1}}).value();
  EXPECT_EQ(store->usage().allocated_bytes, bytes());
}

TEST(Snapkv, SaysWhatItNeeds) {
  const auto refusal = [](const char* policy) {
    kv::Setup setup = test_setup(kShape);
    setup.select.spec = parse_spec(policy).value();
    const auto made = make_store({"virtual", {}}, setup);
    return made.ok() ? std::string() : made.error().message;
  };
  EXPECT_EQ(refusal("snapkv:budget=48"), "");
  EXPECT_EQ(refusal("snapkv:budget=47"),
            "snapkv: window=32, sinks=0 and drop=16 together are more than a budget of 47 rows: "
            "lower window");
  EXPECT_EQ(refusal("snapkv:pool=4"),
            "snapkv: pool=4 has no row in the middle: give an odd number");
  EXPECT_EQ(refusal("snapkv:heads=ada,safeguard=0.5"), "");
  for (const char* even : {"snapkv:safeguard=0.5", "snapkv:heads=even,safeguard=0.2"})
    EXPECT_EQ(refusal(even),
              "snapkv: safeguard= is for heads=ada, where KV heads share rows: add heads=ada, or "
              "leave safeguard= out");
  EXPECT_TRUE(refusal("snapkv:heads=ada,safeguard=1.5").starts_with("snapkv: safeguard='1.5'"));
  for (const char* wrong :
       {"window=0", "window=129", "pool=0", "pooling=sum", "heads=all", "drop=0"})
    EXPECT_TRUE(refusal(fmt::format("snapkv:{}", wrong).c_str()).starts_with("snapkv: ")) << wrong;
}

}  // namespace
}  // namespace kvick::kv::test
