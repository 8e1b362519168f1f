// Derives each trait of a strategy from what its stores do. A claimed trait that does not hold
// fails, and so does a trait that holds but is not claimed.

#include <gtest/gtest.h>

#include "base/check.h"
#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

// Traits depend on a strategy, its options and policy, and on whether rows age, but not on the
// element type: one type is enough.
std::vector<Case> trait_cases() {
  using kernels::DType;
  std::vector<Case> all;
  for (const std::string& spec : specs()) {
    const DType type = traits_of(spec).slots ? DType::kF32 : DType::kF16;
    all.push_back({spec, type, type});
    if (traits_of(spec).holds_old) all.push_back({spec, type, type, kAgings[0]});
  }
  return all;
}

class TraitsSay : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string why = unavailable(GetParam().spec); !why.empty()) GTEST_SKIP() << why;
  }
  static Shape shape() {
    return shape_of(GetParam(), {.layers = 2, .kv_heads = 3, .head_dim = 6, .max_tokens = 400});
  }
  static Pair pair() { return {GetParam().spec, shape()}; }
  static kv::Setup setup() { return setup_for(GetParam().spec, shape()); }
  static Spec spec() { return spec_of(GetParam().spec); }
  static const Strategy& strategy() { return *find_strategy(spec().name); }
  static Traits traits() {
    return kv::traits_of(strategy(), shape(), spec(), select_of(GetParam().spec));
  }
  static std::unique_ptr<Step> written(Pair& p, SeqId seq, uint32_t fresh) {
    auto step = p.begin({{seq, fresh}});
    if (step != nullptr) write_all(*step, p.shape, p.fresh);
    return step;
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, TraitsSay, testing::ValuesIn(trait_cases()), name_of);

// Calls look(query, view) for each layer and head.
void for_each_view(Step& step, const Shape& shape,
                   base::FunctionRef<void(const Query&, const kernels::View&)> look) {
  base::Arena scratch;
  kernels::View view;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      const Query query = query_of(0, layer, head);
      step.view(query, scratch, view);
      look(query, view);
    }
}

TEST_P(TraitsSay, ExactWhereEveryRowIsShownAsItWasWritten) {
  Pair p = pair();
  const SeqId a = p.open();
  p.add(a, 200);
  p.add(a, 50);
  const auto step = written(p, a, 1);
  bool exact = p.shows_rows;
  for (const bool is_v : {false, true})
    if (p.shows_rows)
      for_each_view(*step, p.shape, [&](const Query& query, const kernels::View& view) {
        exact = exact && are_same(gather(view, p.shape, is_v),
                                  bytes_of(p.shape, p.shown(0), query.layer, query.head, is_v));
      });
  EXPECT_EQ(exact, traits().exact);
}

// Returns what a view shows: its rows, and the queries that replace the caller's.
std::vector<std::byte> all_of(const kernels::View& view, const Shape& shape) {
  std::vector<std::byte> all = gather(view, shape, false);
  for (const kernels::Segment& segment : view.past)
    if (segment.q != nullptr) {
      const auto* const q = reinterpret_cast<const std::byte*>(segment.q);
      all.insert(all.end(), q, q + shape.head_dim * sizeof(float));
    }
  return all;
}

TEST_P(TraitsSay, PerQueryWhereOtherQueriesAreShownOtherRows) {
  if (traits().slots) GTEST_SKIP() << "keeps slots and shows no rows";
  const double frequency[] = {1, 0.1};  // rotary embedding
  kv::Setup rotating = setup();
  rotating.select.rotation = {.frequency = frequency, .dims = 4};
  Pair p = pair();
  p.store = make_store(spec(), rotating).value();
  const SeqId a = p.open();
  p.add(a, 200);
  p.add(a, 50);
  const auto step = written(p, a, 1);
  bool differs = false;
  base::Arena scratch;
  kernels::View view;
  for_each_view(*step, p.shape, [&](const Query& query, const kernels::View& first) {
    const std::vector<std::byte> shown = all_of(first, p.shape);
    for (const float factor : {-3.0F, 0.5F}) {
      std::vector<float> q(p.shape.head_dim);
      for (uint32_t i = 0; i < q.size(); ++i) q[i] = factor * query.q[q.size() - 1 - i];
      Query other = query;
      other.q = q.data();
      step->view(other, scratch, view);
      differs = differs || all_of(view, p.shape) != shown;
    }
  });
  EXPECT_EQ(differs, traits().per_query);
  if (step->facets().per_query) {
    EXPECT_TRUE(traits().per_query);
  }
}

TEST_P(TraitsSay, SharesPrefixWhereAPromptFindsRowsOfAnotherSequence) {
  Pair p = pair();
  const std::vector<Token> prompt(100, 7);
  const SeqId a = p.store->open(prompt).seq;
  const Slot slot = {.seq = a, .fresh = 100, .tokens = prompt};
  auto step = p.store->begin({{&slot, 1}}).value();
  write_all(*step, p.shape, Rows(100, 3));
  step->commit(Kept::all({{&slot, 1}}));
  step.reset();
  EXPECT_EQ(p.store->open(prompt).cached > 0, traits().shares_prefix);
}

TEST_P(TraitsSay, CheapForkWhereAForkCopiesNoRow) {
  Pair p = pair();
  const SeqId a = p.open();
  p.add(a, 250);
  const Usage before = p.store->usage();
  p.fork(a);
  const Usage after = p.store->usage();
  EXPECT_EQ(after.copied_bytes == before.copied_bytes, traits().cheap_fork);
  if (traits().cheap_fork) {
    EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  }
}

// Expects that the bucket contains all of a view's runs, and that all of it can be read.
void expect_bucket_around(const kernels::View& view) {
  const kernels::Bucket bucket = view.fresh.bucket;
  std::vector<kernels::Segment> segments(view.past.span().begin(), view.past.span().end());
  segments.push_back(view.fresh);
  for (const kernels::Segment& segment : segments)
    for (const kernels::Run& run : segment.runs) {
      EXPECT_GE(run.row, bucket.row);
      EXPECT_LE(run.row + run.rows, bucket.row + bucket.rows);
    }
  volatile uint8_t read = 0;
  for (uint32_t i = 0; i < bucket.rows * view.fresh.v_stride; ++i)
    read = static_cast<uint8_t>(view.fresh.v[bucket.row * view.fresh.v_stride + i]);
  (void)read;
}

TEST_P(TraitsSay, BucketsWhereEveryViewHasOne) {
  if (traits().slots) GTEST_SKIP() << "keeps slots and shows no rows";
  Pair p = pair();
  const SeqId a = p.open();
  p.add(a, 250);
  const auto step = written(p, a, 1);
  bool all = true;
  for_each_view(*step, p.shape, [&](const Query&, const kernels::View& view) {
    all = all && view.fresh.bucket.rows > 0;
    if (view.fresh.bucket.rows > 0) expect_bucket_around(view);
  });
  EXPECT_EQ(all, traits().buckets);
}

TEST_P(TraitsSay, HoldsOldWhereAStoreOfRowsThatAgeCanBeMade) {
  kv::Setup aging = setup();
  aging.shape.head_dim = 32;
  aging.shape.aging = kAgings[0];
  EXPECT_EQ(make_store(spec(), aging).ok(), traits().holds_old);
  // The trait must match make_rows, because the registry refuses stores by the trait.
  EXPECT_EQ(strategy().make_rows != nullptr, strategy().traits.holds_old);
}

TEST_P(TraitsSay, MovesRowsWhereTheStoreReadsThemAndItsStepsTakeThem) {
  Pair p = pair();
  const SeqId a = p.open();
  p.add(a, 40);
  EXPECT_EQ(p.store->facets().rows != nullptr, traits().moves_rows);
  if (traits().moves_rows) {
    const std::vector<std::byte> bytes = p.read(a, 0, 40);
    EXPECT_TRUE(p.append(p.open(), p.twin[a], bytes));
    p.expect_contents();
  }
  const auto step = p.begin({{a, 1}});
  EXPECT_EQ(step->facets().sink != nullptr, traits().moves_rows);
}

TEST_P(TraitsSay, ForgetsWhereASequenceIsLongerThanTheRowsThatItHolds) {
  if (traits().slots) GTEST_SKIP() << "keeps slots instead of rows";
  Pair p = pair();
  const SeqId a = p.open();
  for (const uint32_t rows : {100, 1, 100}) p.add(a, rows);
  uint32_t held = 0;
  for (const MapEntry& piece : map_of(*p.store)) held += piece.used_tokens;
  EXPECT_EQ(held < p.store->length(a), traits().forgets);
}

TEST_P(TraitsSay, EndlessWhereASequenceGrowsPastTheContext) {
  Pair p = pair();
  const SeqId a = p.open();
  p.add(a, 399);
  EXPECT_EQ(written(p, a, 2) != nullptr, traits().endless);
  EXPECT_EQ(p.store->most_tokens() > p.shape.max_tokens, traits().endless);
}

TEST_P(TraitsSay, SlotsWhereAStepReadsThemAndHasNoViews) {
  Pair p = pair();
  const auto step = written(p, p.open(), 1);
  EXPECT_EQ(step->facets().slots != nullptr, traits().slots);
  bool has_views = true;
  base::Arena scratch;
  kernels::View view;
  try {
    step->view(query_of(0, 0, 0), scratch, view);
  } catch (const base::Bug&) {
    has_views = false;
  }
  EXPECT_EQ(!has_views, traits().slots);
  kv::Setup other = setup();  // slots for strategies that keep none, no slots for those that do
  other.slots = traits().slots ? nullptr : &made_slots(shape()).facts;
  EXPECT_FALSE(make_store(spec(), other).ok());
}

TEST_P(TraitsSay, TieredWhereRowsLieInASlowerTier) {
  Pair p = pair();
  const SeqId a = p.open();
  p.add(a, 250);
  EXPECT_EQ(p.store->usage().slow_bytes > 0, traits().tiered);
  kv::Setup other = setup();  // a tier for strategies that use none, no tier for those that do
  if (traits().tiered)
    other.tier.spec.reset();
  else
    other.tier.spec = parse_spec("ram:unit=8,size=64MiB").value();
  EXPECT_FALSE(make_store(spec(), other).ok());
}

TEST_P(TraitsSay, MaxFreshWhereAStepTakesNoMoreRowsOfASequence) {
  Pair p = pair();
  const SeqId a = p.open();
  const uint32_t most = traits().max_fresh != 0 ? traits().max_fresh : p.shape.max_tokens;
  EXPECT_NE(p.begin({{a, most}}), nullptr) << p.shortage.what;
  if (traits().max_fresh != 0) {
    EXPECT_EQ(p.begin({{a, most + 1}}), nullptr);
  }
}

}  // namespace
}  // namespace kvick::kv::test
