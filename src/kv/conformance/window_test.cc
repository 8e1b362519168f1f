// Tests shapes with windows, with values and keys of different sizes, and with latent rows, for the
// strategies that support them.

#include <gtest/gtest.h>

#include "base/check.h"
#include "kv/rows/reservation.h"
#include "kv/rows/row_store.h"
#include "kv/testing/player.h"

namespace kvick::kv::test {
namespace {

constexpr const char* kSpecs[] = {
    "virtual", "virtual:hugepages=on", "bmc",       "bmc:r=1",
    "bmc:r=7", "bmc:r=100000",         "iterative", "upfront",
};

// Rows of 256 bytes: 16 fit a page.
constexpr Shape kShape = {.layers = 2,
                          .kv_heads = 2,
                          .head_dim = 64,
                          .max_tokens = 700,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};

struct Form {
  std::string name;
  Shape shape;
};

std::vector<Form> forms() {
  const auto form = [](const char* name, auto change) {
    Form made = {.name = name, .shape = kShape};
    change(made.shape);
    return made;
  };
  return {
      form("window_1", [](Shape& shape) { shape.window = 1; }),
      form("window_8", [](Shape& shape) { shape.window = 8; }),
      form("window_300", [](Shape& shape) { shape.window = 300; }),
      form("window_of_the_context", [](Shape& shape) { shape.window = shape.max_tokens; }),
      form("chunks_of_16", [](Shape& shape) { shape.window = 16, shape.chunked = true; }),
      form("chunks_of_9",
           [](Shape& shape) { shape.window = 9, shape.chunked = true, shape.head_dim = 42; }),
      form("values_of_8", [](Shape& shape) { shape.head_dim = 16, shape.v_dim = 8; }),
      form("large_values",
           [](Shape& shape) { shape.head_dim = 16, shape.v_dim = 100, shape.window = 8; }),
      form("latent",
           [](Shape& shape) { shape.head_dim = 16, shape.v_dim = 8, shape.latent = true; }),
      form("latent_window_8",
           [](Shape& shape) {
             shape.v_dim = 32, shape.latent = true, shape.window = 8;
             shape.k_type = shape.v_type = kernels::DType::kStatic8;
           }),
  };
}

std::vector<std::pair<const char*, Form>> pairs() {
  const std::vector<Form> tried = forms();
  std::vector<std::pair<const char*, Form>> all;
  for (size_t s = 0; s < std::size(kSpecs); ++s)
    for (size_t i = 0; i < tried.size(); ++i)
      if (tries(s, i)) all.emplace_back(kSpecs[s], tried[i]);
  return all;
}

class Window : public testing::TestWithParam<std::pair<const char*, Form>> {
 protected:
  void SetUp() override {
    if (const std::string why = unavailable(spec()); !why.empty()) GTEST_SKIP() << why;
  }
  static std::string spec() { return GetParam().first; }
  static const Shape& shape() { return GetParam().second.shape; }
  static Cost cost(const Load& load) {
    return cost_of(spec_of(spec()), setup_for(spec(), shape()), load).value();
  }
};

std::string window_name(const testing::TestParamInfo<std::pair<const char*, Form>>& info) {
  std::string name = std::string(info.param.first) + "_" + info.param.second.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Strategies, Window, testing::ValuesIn(pairs()), window_name);

// Returns the most bytes that a sequence may hold: the rows that a step sees, the step's rows, and
// one unit of the strategy.
uint64_t most_bytes(const std::string& text, const Shape& shape, uint64_t step_rows) {
  const Spec spec = spec_of(text);
  const uint64_t rows = shape.window - uint64_t{1} + step_rows;
  if (spec.name == "virtual") {
    // A page at each end of a sequence's rows, and for a fork a copy of the page where its own rows
    // begin.
    const uint64_t page = bytes_of(text == "virtual" ? Pages::kSystem : Pages::kHuge);
    const uint64_t regions = uint64_t{shape.layers} * shape.kv_heads * (shape.latent ? 1 : 2);
    return rows * shape.token_bytes() + 3 * page * regions;
  }
  uint64_t unit = 64;  // bmc, upfront
  if (spec.name == "iterative") unit = 1;
  if (spec.options.contains("r")) unit = std::stoull(spec.options.at("r"));
  return std::min<uint64_t>(rows + unit - 1, shape.max_tokens) * shape.token_bytes();
}

TEST_P(Window, RandomOperationsAgreeWithTheTrivialModel) {
  const uint64_t cap = cost({shape().max_tokens, 2}).fast_bytes + 150 * shape().token_bytes();
  const Case test = {spec(), shape().k_type, shape().v_type};
  const uint32_t from = seed();
  int shortages = 0;
  constexpr uint32_t kRounds = kSanitized ? 1 : 3, kMostRounds = 20;
  for (uint32_t round = 0; round < kRounds || (shortages == 0 && round < kMostRounds); ++round) {
    SCOPED_TRACE("KVICK_TEST_SEED=" + std::to_string(from + round));
    Player player(test, shape(), cap, from + round);
    player.play(250);
    shortages += player.shortages();
  }
  EXPECT_GT(shortages, 0);  // else shortages were not tested
}

TEST_P(Window, RandomOperationsHoldNoMoreThanTheWindowAndAUnit) {
  if (shape().window == 0) GTEST_SKIP() << "holds all rows";
  const Case test = {spec(), shape().k_type, shape().v_type};
  const uint32_t from = seed();
  SCOPED_TRACE("KVICK_TEST_SEED=" + std::to_string(from));
  Player player(test, shape(), UINT64_MAX, from);
  player.play(250, [&] {
    uint64_t most = 0;
    for (const auto& [seq, rows] : player.pair().twin)
      most += most_bytes(spec(), shape(), player.step_rows(seq));
    ASSERT_LE(player.pair().store->usage().allocated_bytes, most);
  });
}

// Steps have different sizes, and not all rows are kept.
TEST_P(Window, ALongSequenceHoldsNoMoreThanTheWindowAndAUnit) {
  if (shape().window == 0) GTEST_SKIP() << "holds all rows";
  Pair p(spec(), shape());
  const SeqId a = p.open();
  for (uint32_t i = 0; p.store->length(a) + 40 < shape().max_tokens; ++i) {
    const uint32_t fresh = i % 16 == 0 ? 33 : 1 + i % 5;
    auto step = p.begin({{a, fresh}});
    ASSERT_NE(step, nullptr) << p.shortage.what;
    write_all(*step, p.shape, p.fresh);
    p.expect_shown(*step);
    std::vector<uint32_t> kept = {0};
    if (i % 3 == 0 && fresh > 1) kept.push_back(fresh - 1);
    p.commit(*step, {.rows = {kept}});
    const Usage usage = p.store->usage();
    ASSERT_LE(usage.allocated_bytes, most_bytes(spec(), shape(), fresh));
    ASSERT_EQ(usage.used_bytes, shape().used_bytes(p.store->length(a)));
    ASSERT_GE(usage.allocated_bytes, usage.used_bytes);
  }
}

TEST_P(Window, CostsWhatItsFormulaSays) {
  for (const uint32_t tokens : {1u, 9u, 40u, 350u, 700u})
    for (const uint32_t step_rows : {1u, 3u, 100u}) {
      Pair p(spec(), shape());
      const SeqId a = p.open();
      uint64_t read = 0;
      while (p.store->length(a) < tokens) {
        auto step = p.begin({{a, std::min(step_rows, tokens - p.store->length(a))}});
        write_all(*step, p.shape, p.fresh);
        base::Arena scratch;
        kernels::View view;
        step->view(query_of(0, 0, 0), scratch, view);
        read = rows_of(view) * p.shape.token_bytes();
        p.commit(*step, Kept::all({p.slots}));
      }
      const Cost formula = cost({.tokens = tokens, .step = step_rows});
      EXPECT_EQ(p.store->usage().allocated_bytes, formula.fast_bytes) << tokens << " " << step_rows;
      EXPECT_EQ(p.store->usage().copied_bytes, formula.copied_bytes) << tokens << " " << step_rows;
      if (step_rows == 1) {
        EXPECT_EQ(read, formula.read_bytes_per_token) << tokens;
      }
    }
}

// Uses the RowStore directly, as an outer store does that keeps a part of its rows in it.
TEST_P(Window, RowsThatAreSeenCanBeReadAndAppended) {
  const Strategy& strategy = *find_strategy(spec_of(spec()).name);
  if (strategy.make_rows == nullptr) GTEST_SKIP() << "is no store of rows";
  Pair p(spec(), shape());
  EXPECT_EQ(p.store->facets().rows == nullptr, shape().window > 0);
  auto made = strategy.make_rows(setup_for(spec(), shape()), spec_of(spec())).value();
  RowStore& rows = *made;
  p.store = std::move(made);
  const SeqId a = p.open(), b = p.open();
  p.add(a, 33);
  p.add(b, 33);
  const uint32_t first = shape().first_seen(33), count = 33 - first;
  std::vector<std::byte> bytes(count * shape().token_bytes());
  rows.read_rows(a, first, count, bytes);
  const Rows moved(p.twin[a].begin() + first, p.twin[a].end());
  std::vector<std::byte> one(shape().token_bytes());
  if (first > 0) {
    EXPECT_THROW(rows.read_rows(a, first - 1, 1, one), base::Bug);
  }
  ASSERT_TRUE(append_rows(*p.store, b, std::vector<Token>(moved.begin(), moved.end()), bytes).ok());
  p.twin[b].insert(p.twin[b].end(), moved.begin(), moved.end());
  p.expect_contents();
}

}  // namespace
}  // namespace kvick::kv::test
