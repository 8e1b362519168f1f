// The memory that expected counts, the options that it refuses, and rows that are Hadamard
// transforms.

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kNumbers = 4, kDim = 8;  // layers times KV heads; elements of a key
constexpr Shape kShape = {.layers = 2,
                          .kv_heads = 2,
                          .head_dim = kDim,
                          .max_tokens = 1000,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};

TEST(Expected, CountsTheMomentsOfASequence) {
  const auto bytes_with = [](const char* options, bool forks) {
    Pair pair(fmt::format("virtual expected:budget=64,drop=1,{}", options), kShape);
    const SeqId seq = pair.open();
    EXPECT_EQ(pair.store->usage().allocated_bytes, 0U);
    pair.add(seq, 64);
    const uint64_t before = pair.store->usage().allocated_bytes;
    if (!forks) return before;
    const SeqId fork = pair.fork(seq);
    const uint64_t both = pair.store->usage().allocated_bytes;
    pair.close(seq);
    EXPECT_EQ(pair.store->usage().allocated_bytes, both - before);
    pair.close(fork);
    EXPECT_EQ(pair.store->usage().allocated_bytes, 0U);
    return both;
  };
  const uint64_t off = bytes_with("cov=off", false);
  EXPECT_EQ(bytes_with("cov=diagonal", false) - off, kNumbers * kDim * sizeof(float));
  EXPECT_EQ(bytes_with("cov=full", false) - off, kNumbers * kDim * (kDim + 1) / 2 * sizeof(float));
  EXPECT_EQ(bytes_with("cov=full", true), 2 * bytes_with("cov=full", false));
}

// A step's rows, queries and scratch count until the step ends, against the cap too.
TEST(Expected, CountsTheQueriesOfAStep) {
  constexpr uint32_t kRows = 32;
  const std::string text = "virtual expected:budget=32,drop=1,sinks=2,recent=3";
  for (const uint32_t piece : {1U, 20U, 64U, 100U}) {
    SCOPED_TRACE(piece);
    const uint64_t queries = kNumbers * std::min(piece, 64U) * kDim * sizeof(float);
    // The scratch of a commit: of each row of a head its position, score, number and logit; keys
    // and products of 64 rows, a value and a covariance. Then the ends of the head.
    const uint64_t scratch =
        uint64_t{16} * (kRows + piece) + 8 + sizeof(float) * (2 * 64 * kDim + kDim + kDim * kDim);
    const uint64_t step_bytes = piece * kShape.token_bytes() + queries + kNumbers + scratch;
    Pair pair(text, kShape);
    const SeqId seq = pair.open();
    for (uint32_t i = 0; i < kRows / 8; ++i) pair.add(seq, 8);
    const uint64_t held = pair.store->usage().allocated_bytes;
    pair.begin({{seq, piece}}).reset();
    EXPECT_EQ(pair.store->usage().allocated_bytes, held) << "a dropped step gives them back";
    const auto step = pair.begin({{seq, piece}});
    EXPECT_EQ(pair.store->usage().allocated_bytes, held + step_bytes);
    write_all(*step, kShape, pair.fresh);
    pair.observe(*step);
    pair.commit(*step, Kept::all({pair.slots}));
    EXPECT_EQ(pair.store->usage().allocated_bytes, held) << "a commit gives them back";
    if (piece > 1) {
      const Cost cost =
          cost_of(spec_of(text), setup_for(text, kShape), {.tokens = kRows + piece, .step = piece})
              .value();
      EXPECT_EQ(cost.fast_bytes, held + step_bytes);
    }
    if (piece < 20) continue;  // the cap would refuse the steps of 8
    for (const uint64_t lacks : {0U, 1U}) {
      Pair capped(text, kShape, held + step_bytes - lacks);
      const SeqId one = capped.open();
      for (uint32_t i = 0; i < kRows / 8; ++i) capped.add(one, 8);
      EXPECT_EQ(capped.begin({{one, piece}}) != nullptr, lacks == 0) << capped.shortage.what;
    }
  }
}

// A sequence that grows has its former rows until they are copied: the plan counts both, so that
// what it says is enough, whether tokens come in pieces or one by one.
TEST(Forgetting, ALoadFindsRoomInTheMemoryThatThePlanSays) {
  constexpr uint32_t kTokens = 300, kPiece = 30;
  for (const char* policy :
       {"h2o:budget=200", "h2o:budget=0.5,least=0", "streaming:budget=0.7,least=40",
        "scissorhands:budget=0.6,least=80,drop=16", "snapkv:budget=150,window=8,drop=4,heads=ada",
        "expected:budget=0.5,least=100,drop=8", "kvzap:budget=150,drop=4",
        "duo:budget=150,recent=20,drop=4"}) {
    SCOPED_TRACE(policy);
    const std::string text = fmt::format("virtual {}", policy);
    const uint64_t bytes = cost_of(spec_of(text), setup_for(text, kShape),
                                   {.tokens = kTokens, .sequences = 1, .step = kPiece})
                               .value()
                               .fast_bytes;
    for (const uint32_t piece : {kPiece, 7U, 1U}) {
      Pair pair(text, kShape, bytes);
      const SeqId seq = pair.open();
      while (pair.store->length(seq) < kTokens && !testing::Test::HasFatalFailure())
        pair.add(seq, std::min(piece, kTokens - pair.store->length(seq)));
    }
  }
}

// Returns the values of the rows that stay of 40, whose keys and queries are transformed or not.
std::vector<std::byte> kept_values(bool transformed) {
  constexpr uint32_t kRows = 40, kWide = 32;
  std::vector<double> frequency;
  for (uint32_t i = 0; i < kWide / 2; ++i) frequency.push_back(1.0 / (1 + i));
  Shape shape = kShape;
  shape.head_dim = kWide;
  shape.hadamard.k = transformed;
  kv::Setup setup = test_setup(shape);
  setup.select.spec = parse_spec("expected:budget=12,sinks=1,recent=2,drop=1,future=6").value();
  setup.select.rotation = {.frequency = frequency, .dims = kWide};
  const auto store = make_store({"virtual", {}}, setup).value();
  const auto transform_all = [&](std::vector<float>& heads) {
    for (size_t at = 0; transformed && at < heads.size(); at += kWide)
      tried_kernels().hadamard(heads.data() + at, kWide, kWide);
  };
  const SeqId seq = store->open({}).seq;
  const Slot prompt = {.seq = seq, .fresh = kRows}, next = {.seq = seq, .fresh = 1};
  auto step = store->begin({{&prompt, 1}}).value();
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    Rows rows(kRows);
    std::iota(rows.begin(), rows.end(), 1);
    LayerFloats floats(shape, rows, layer);
    transform_all(floats.k);
    step->write(layer, floats.k.data(), floats.v.data());
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      Query query = query_of(0, layer, head);
      std::vector<float> q(query.q, query.q + size_t{kRows} * kWide);
      transform_all(q);
      query.q = q.data();
      query.q_stride = kWide;
      base::Arena scratch;
      kernels::View view;
      step->view(query, scratch, view);
      step->facets().observer->observe(query, view, {});
    }
  }
  step->commit(Kept::all({{&prompt, 1}}));
  step = store->begin({{&next, 1}}).value();
  write_all(*step, shape, {99});
  std::vector<std::byte> all;
  for (uint32_t number = 0; number < kNumbers; ++number) {
    base::Arena scratch;
    kernels::View view;
    step->view(query_of(0, number / 2, number % 2), scratch, view);
    const std::vector<std::byte> some = gather(view, shape, true);
    EXPECT_EQ(some.size(), 13 * shape.row_bytes(true));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(Expected, KeepsTheSameRowsWhereKeysAndQueriesAreTransformed) {
  EXPECT_TRUE(are_same(kept_values(false), kept_values(true)));
}

TEST(Expected, SaysWhatItNeeds) {
  const auto refusal = [](const char* policy) {
    kv::Setup setup = test_setup(kShape);
    setup.select.spec = parse_spec(policy).value();
    const auto made = make_store({"virtual", {}}, setup);
    return made.ok() ? std::string() : made.error().message;
  };
  EXPECT_EQ(refusal("expected:budget=68"), "");
  EXPECT_EQ(refusal("expected:budget=67"),
            "expected: drop=32, sinks=4 and recent=32 together are more than a budget of 67 rows: "
            "lower drop");
  EXPECT_EQ(refusal("expected:heads=ada,safeguard=0.5"), "");
  for (const char* even : {"expected:safeguard=0.5", "expected:heads=even,safeguard=0.2"})
    EXPECT_EQ(refusal(even),
              "expected: safeguard= is for heads=ada, where KV heads share rows: add heads=ada, or "
              "leave safeguard= out");
  EXPECT_EQ(refusal("expected:vnorm=off,epsilon=0.1"),
            "expected: epsilon= changes nothing without the norms of values: leave vnorm=off or "
            "epsilon= out");
  for (const char* wrong : {"future=0", "cov=half", "vnorm=1", "epsilon=2", "heads=all", "drop=0"})
    EXPECT_TRUE(refusal(fmt::format("expected:{}", wrong).c_str()).starts_with("expected: "))
        << wrong;
}

}  // namespace
}  // namespace kvick::kv::test
