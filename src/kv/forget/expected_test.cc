// Compares expected with its definition: queries before rotation in plain lists, their moments and
// the mean rotation by plain sums of doubles.

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "kv/testing/shown_some.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kLayers = 2, kHeads = 2, kNumbers = kLayers * kHeads, kGroup = 2, kDim = 8;
constexpr Shape kShape = {.layers = kLayers,
                          .kv_heads = kHeads,
                          .head_dim = kDim,
                          .max_tokens = 1000,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};
const std::vector<double> kFrequency = {1.0, 0.25, 0.01};
using Vector = std::array<double, kDim>;

enum class Cov { kOff, kDiagonal, kFull };

// Options of the policy, as text and as numbers, and of the model.
struct Tried {
  const char* text;
  uint32_t rows = 0, sinks = 0, recent = 0, drop = 1, future = 1;
  Cov cov = Cov::kFull;
  bool norms = true;
  double epsilon = 0;
  uint32_t safe_percent = 0;
  bool ada = false;
  bool rotates = true, interleaved = false;
  float scale = 0;

  // Rows that a head keeps of so many tokens, on average over heads that compete.
  uint32_t left(uint32_t tokens) const {
    const uint32_t at = tokens / drop * drop;  // when rows were last dropped
    return std::min(tokens, rows - drop + 1 + tokens - at);
  }
  Vector turned(Vector x, double position) const {
    for (uint32_t pair = 0; rotates && pair < kFrequency.size(); ++pair) {
      const uint32_t a = interleaved ? 2 * pair : pair, b = interleaved ? a + 1 : pair + 3;
      const double cos = std::cos(position * kFrequency[pair]);
      const double sin = std::sin(position * kFrequency[pair]);
      const double first = x[a] * cos - x[b] * sin;
      x[b] = x[a] * sin + x[b] * cos;
      x[a] = first;
    }
    return x;
  }
};

Vector row_of(Row row, uint32_t number, bool is_v) {
  Vector x;
  for (uint32_t i = 0; i < kDim; ++i)
    x[i] = value_of(row, number / kHeads, number % kHeads, is_v, i);
  return x;
}
double product(const Vector& a, const Vector& b) {
  double sum = 0;
  for (uint32_t i = 0; i < kDim; ++i) sum += a[i] * b[i];
  return sum;
}

struct Held {
  Row row;
  uint32_t pos;
  double score = 0;
};
// One KV head. queries: before rotation, of its query heads.
struct Head {
  std::vector<Held> rows;
  std::array<std::vector<Vector>, kGroup> queries;

  // Sets the score of each row that is no sink.
  void score(uint32_t number, uint32_t tokens, const Tried& tried) {
    for (Held& held : rows) held.score = 0;
    for (const std::vector<Vector>& some : queries) {
      std::vector<double> logits;
      double sum = 0;
      Vector mean = {};
      for (const Vector& q : some)
        for (uint32_t d = 0; d < kDim; ++d) mean[d] += q[d] / static_cast<double>(some.size());
      for (const Held& held : rows) {
        logits.push_back(logit(row_of(held.row, number, false), some, mean, tokens, tried));
        if (held.pos >= tried.sinks) sum += std::exp(logits.back());
      }
      for (size_t i = 0; i < rows.size(); ++i) rows[i].score += std::exp(logits[i]) / sum / kGroup;
    }
    for (Held& held : rows) {
      const Vector v = row_of(held.row, number, true);
      if (tried.norms) held.score = (held.score + tried.epsilon) * std::sqrt(product(v, v));
    }
  }

  static double logit(const Vector& key, const std::vector<Vector>& queries, const Vector& mean,
                      uint32_t tokens, const Tried& tried) {
    Vector turned = {};  // the key times the mean of the next rotations
    for (uint32_t i = 0; i < tried.future; ++i) {
      const Vector one = tried.turned(key, -static_cast<double>(tokens + i));
      for (uint32_t d = 0; d < kDim; ++d) turned[d] += one[d] / tried.future;
    }
    const auto count = static_cast<double>(queries.size());
    double variance = 0;
    for (const Vector& q : queries) {
      double sum = 0, squares = 0;
      for (uint32_t d = 0; d < kDim; ++d) {
        const double part = (q[d] - mean[d]) * turned[d];
        sum += part;
        squares += part * part;
      }
      if (tried.cov == Cov::kFull) variance += sum * sum / count;
      if (tried.cov == Cov::kDiagonal) variance += squares / count;
    }
    const double scale = tried.scale != 0 ? tried.scale : 1 / std::sqrt(kDim);
    return scale * product(mean, turned) + scale * scale * variance / 2;
  }
};

// Returns which of a head's rows stayed: true for those in `shown`.
std::vector<bool> stayed(const Head& head, const Rows& shown) {
  std::vector<bool> all;
  for (const Held& held : head.rows)
    all.push_back(std::find(shown.begin(), shown.end(), held.row) != shown.end());
  return all;
}

// Checks what a commit kept of these heads, which compete: as many rows as the budget says, and
// those that score highest. Rows whose scores are almost equal may be taken for each other. Then
// the heads keep what is shown.
void choose(std::span<Head> heads, std::span<const Rows> shown, uint32_t first, uint32_t tokens,
            const Tried& tried) {
  constexpr double kAlmost = 1.001;
  size_t before = 0, after = 0;
  for (const Head& head : heads) before += head.rows.size();
  for (const Rows& rows : shown) after += rows.size();
  ASSERT_EQ(after, std::min(before, tried.left(tokens) * heads.size()));
  double best_gone = 0, worst_kept = INFINITY;
  for (size_t h = 0; h < heads.size(); ++h) {
    Head& head = heads[h];
    if (after < before) head.score(first + static_cast<uint32_t>(h), tokens, tried);
    const std::vector<bool> stay = stayed(head, shown[h]);
    ASSERT_EQ(shown[h].size(), static_cast<size_t>(std::count(stay.begin(), stay.end(), true)));
    std::vector<double> rivals, gone;
    for (size_t i = 0; i < stay.size(); ++i) {
      const bool always =
          head.rows[i].pos < tried.sinks || head.rows[i].pos + tried.recent >= tokens;
      ASSERT_TRUE(stay[i] || !always) << head.rows[i].pos;
      if (!always) (stay[i] ? rivals : gone).push_back(head.rows[i].score);
    }
    std::sort(rivals.begin(), rivals.end());
    std::sort(gone.begin(), gone.end());
    const uint32_t left = tried.left(tokens), always = tried.sinks + tried.recent;
    const size_t safe = left > always ? (left - always) * tried.safe_percent / 100 : 0;
    if (!gone.empty()) {
      ASSERT_GE(rivals.size(), safe);
      best_gone = std::max(best_gone, gone.back());
      ASSERT_LE(gone.back(), kAlmost * (rivals.empty() ? INFINITY : rivals.front()));
    }
    if (rivals.size() > safe) worst_kept = std::min(worst_kept, rivals.front());
    std::vector<Held> kept;
    for (size_t i = 0; i < stay.size(); ++i)
      if (stay[i]) kept.push_back(head.rows[i]);
    head.rows = kept;
  }
  ASSERT_LE(best_gone, kAlmost * worst_kept);
}

kv::Setup setup_of(const std::string& policy, const Tried& tried) {
  kv::Setup setup = test_setup(kShape);
  setup.select.spec = parse_spec(policy).value();
  setup.select.group = kGroup;
  if (tried.rotates)
    setup.select.rotation = {.frequency = kFrequency, .dims = 6, .interleaved = tried.interleaved};
  return setup;
}

// A sequence beside its twin.
struct Player {
  Pair& pair;
  const Tried& tried;
  SeqId seq{};
  std::vector<Head> heads = std::vector<Head>(kNumbers);
  uint32_t tokens = 0;
  bool uneven = false;  // whether two heads of a layer ever had different numbers of rows

  // Gives the step the queries of all tokens and, if the step will be committed, tells the twin.
  // The kept tokens are a path of the slot's tree; each other token follows those before it.
  void observe(Step& step, const std::vector<uint32_t>* kept, std::mt19937& random) {
    const auto fresh = static_cast<uint32_t>(pair.fresh.size());
    std::vector<std::vector<uint32_t>> paths(fresh);
    std::vector<uint32_t> before;
    for (uint32_t token = 0; token < fresh; ++token) {
      paths[token] = before;
      paths[token].push_back(token);
      const bool on_path =
          kept == nullptr || std::find(kept->begin(), kept->end(), token) != kept->end();
      if (on_path) before.push_back(token);
    }
    const std::vector<std::span<const uint32_t>> spans(paths.begin(), paths.end());
    const bool chain = before.size() == fresh;
    constexpr uint32_t kStride = kHeads * kGroup * kDim;
    std::normal_distribution<double> normal;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      std::vector<float> q(size_t{fresh} * kStride);
      for (uint32_t token = 0; token < fresh; ++token)
        for (uint32_t i = 0; i < kHeads * kGroup; ++i) {
          Vector plain;
          const double shared = normal(random);  // so that elements vary together
          for (uint32_t d = 0; d < kDim; ++d)
            plain[d] = 0.4 * std::sin(7.0 * i + 3.0 * d + layer) + 0.5 * normal(random) +
                       (d % 3 == i % 3 ? shared : 0);
          const auto depth = static_cast<uint32_t>(paths[token].size() - 1);
          const Vector turned = tried.turned(plain, tokens + depth);
          std::copy(turned.begin(), turned.end(), q.begin() + token * kStride + i * kDim);
          const bool counts =
              kept != nullptr && !kept->empty() && tokens + depth >= tried.sinks &&
              (fresh > 64 || std::find(kept->begin(), kept->end(), token) != kept->end());
          if (counts) heads[layer * kHeads + i / kGroup].queries[i % kGroup].push_back(plain);
        }
      for (uint32_t head = 0; head < kHeads; ++head) {
        const Query query = {.slot = 0,
                             .layer = layer,
                             .head = head,
                             .q = q.data() + size_t{head} * kGroup * kDim,
                             .q_stride = kStride,
                             .scale = tried.scale,
                             .path = chain ? nullptr : spans.data()};
        base::Arena scratch;
        kernels::View view;
        step.view(query, scratch, view);
        ASSERT_EQ(step.facets().observer->apart(layer), Observer::kQueriesOnly);
        step.facets().observer->observe(query, view, {});
      }
    }
  }

  // Returns the rows that each head still has.
  std::vector<Rows> look() {
    const auto step = pair.begin({{seq, 1}});
    write_all(*step, kShape, pair.fresh);
    std::vector<Rows> all;
    for (uint32_t number = 0; number < kNumbers; ++number) {
      base::Arena scratch;
      kernels::View view;
      const Query query = query_of(0, number / kHeads, number % kHeads);
      step->view(query, scratch, view);
      const Rows known = pair.shown(0);
      Rows& rows = all.emplace_back();
      for (const Row at : find_rows(view, kShape, known, query)) rows.push_back(known[at]);
      rows.pop_back();  // the fresh row
    }
    return all;
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
    for (Head& head : heads)
      for (uint32_t i = 0; i < kept.rows[0].size(); ++i)
        head.rows.push_back({pair.fresh[kept.rows[0][i]], tokens + i});
    pair.commit(*step, kept);
    tokens += static_cast<uint32_t>(kept.rows[0].size());
  }
  void play(uint32_t turns, std::mt19937& random) {
    for (uint32_t i = 0; i < turns && !testing::Test::HasFatalFailure(); ++i) {
      // Longer than StepQueries::kMostApart at times.
      turn(i % 9 == 0 ? 15 + random() % 70 : 1 + random() % 4, random);
      if (testing::Test::HasFatalFailure()) return;
      const std::vector<Rows> shown = look();
      const size_t together = tried.ada ? kHeads : 1;
      for (uint32_t first = 0; first < kNumbers; first += together)
        choose(std::span(heads).subspan(first, together), std::span(shown).subspan(first, together),
               first, tokens, tried);
      uneven = uneven || heads[0].rows.size() != heads[1].rows.size();
    }
  }
};

const Tried kTried[] = {
    {.text = "budget=40,sinks=2,recent=3,drop=4,future=8",
     .rows = 40,
     .sinks = 2,
     .recent = 3,
     .drop = 4,
     .future = 8},
    {.text = "budget=30,sinks=0,recent=0,drop=1,future=30,cov=diagonal,epsilon=0.01",
     .rows = 30,
     .future = 30,
     .cov = Cov::kDiagonal,
     .epsilon = 0.01,
     .interleaved = true},
    {.text = "budget=40,sinks=4,recent=9,drop=7,future=1,cov=off,vnorm=off",
     .rows = 40,
     .sinks = 4,
     .recent = 9,
     .drop = 7,
     .cov = Cov::kOff,
     .norms = false},
    {.text = "budget=40,sinks=1,recent=2,drop=3",
     .rows = 40,
     .sinks = 1,
     .recent = 2,
     .drop = 3,
     .rotates = false,
     .scale = 0.5},
    {.text = "budget=40,sinks=2,recent=6,drop=4,future=5,heads=ada",
     .rows = 40,
     .sinks = 2,
     .recent = 6,
     .drop = 4,
     .future = 5,
     .safe_percent = 20,
     .ada = true},
    {.text = "budget=50,sinks=0,recent=9,drop=1,future=3,heads=ada,safeguard=0.5",
     .rows = 50,
     .recent = 9,
     .future = 3,
     .safe_percent = 50,
     .ada = true,
     .interleaved = true}};

TEST(Expected, KeepsTheRowsThatLaterQueriesAreExpectedToAttendToMost) {
  for (const Tried& tried : kTried) {
    SCOPED_TRACE(tried.text);
    const std::string policy = fmt::format("expected:{}", tried.text);
    Pair pair("virtual " + policy, kShape);
    pair.store = make_store(parse_spec("virtual").value(), setup_of(policy, tried)).value();
    std::mt19937 random(11);
    Player one = {.pair = pair, .tried = tried, .seq = pair.open()};
    one.play(40, random);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    // A fork goes on with the rows, and with the moments of the queries.
    Player two = one;
    two.seq = pair.fork(one.seq);
    one.play(20, random);
    pair.close(one.seq);
    two.play(20, random);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    EXPECT_GT(two.tokens, 2 * two.heads[0].rows.size());
    EXPECT_EQ(two.uneven, tried.ada);
  }
}

// Layers that share rows view them in turn: the queries of the first, which owns them, count.
TEST(Expected, TakesTheQueriesOfTheLayerThatOwnsTheRows) {
  const auto rows_of = [](bool again) {
    Pair pair("virtual expected:budget=10,sinks=0,recent=0,drop=1", kShape);
    const SeqId seq = pair.open();
    const auto step = pair.begin({{seq, 30}});
    write_all(*step, kShape, pair.fresh);
    pair.observe(*step);
    const std::vector<float> other(1000, -3);
    for (uint32_t number = 0; again && number < kNumbers; ++number) {
      Query query = query_of(0, number / kHeads, number % kHeads);
      query.q = other.data();
      base::Arena scratch;
      kernels::View view;
      step->view(query, scratch, view);
      step->facets().observer->observe(query, view, {});
    }
    pair.commit(*step, Kept::all({pair.slots}));
    return Player{.pair = pair, .tried = kTried[0], .seq = seq}.look();
  };
  EXPECT_EQ(rows_of(false), rows_of(true));
  EXPECT_EQ(rows_of(false)[0].size(), 10U);
}

}  // namespace
}  // namespace kvick::kv::test
