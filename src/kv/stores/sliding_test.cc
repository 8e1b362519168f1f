// The static sliding cache against the numbers of its source and against the reference model: the
// last S - 1 rows.

#include "kv/stores/sliding.h"

#include <gtest/gtest.h>
#include <random>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {.layers = 2, .kv_heads = 3, .head_dim = 8, .max_tokens = 21};
constexpr uint32_t kWindow = 20;

// The source's Llama-7B: 16-bit values, 2048 tokens.
constexpr Shape kLlama = {.layers = 32, .kv_heads = 32, .head_dim = 128, .max_tokens = 2048};

Cost cost(const std::string& spec, const Shape& shape, const Load& load) {
  return cost_of(parse_spec(spec).value(), {.shape = shape}, load).value();
}
Sliding sliding(const std::string& spec, const Shape& shape) {
  return sliding_of(shape, parse_spec(spec).value()).value();
}

TEST(Sliding, HasTheSizesOfItsSourceToTheByte) {
  EXPECT_EQ(sliding_formula_bytes(kLlama, sliding("sliding", kLlama)), 2'146'435'072u);
  EXPECT_EQ(sliding_formula_bytes(kLlama, sliding("sliding:reserve=1.5", kLlama)), 1'609'826'304u);
  EXPECT_EQ(cost("sliding:reserve=2.0", kLlama, {1, 1}).fast_bytes, 2'146'435'072u);
  // 1.5 * 2047 rows are 3070.5: each of the 2 * 32 * 32 tensors has 3071.
  const uint64_t half_row = 64 * 2;
  EXPECT_EQ(cost("sliding:reserve=1.5", kLlama, {1, 1}).fast_bytes,
            1'609'826'304u + 2 * 32 * 32 * half_row);
}

TEST(Sliding, SizesOfAbsurdShapesDoNotWrap) {
  const Shape shape = {.layers = 1u << 24, .kv_heads = 1, .head_dim = 1u << 20, .max_tokens = ~0u};
  EXPECT_EQ(sliding_formula_bytes(shape, {.window = ~0u - 1}), UINT64_MAX);
  EXPECT_EQ(sliding_formula_bytes({.layers = 1, .kv_heads = 1, .head_dim = 1, .max_tokens = 2},
                                  {.window = 1, .reserve = 1'100'000}),
            5u);  // 4.4 rounded up
}

TEST(Sliding, TakesTheWholeBufferAtTheFirstStepAndNeverMore) {
  Pair p("sliding:reserve=1.3", kShape);
  const SeqId a = p.open();
  for (int i = 0; i < 100; ++i) {
    p.add(a, 1);
    ASSERT_EQ(p.store->usage().allocated_bytes, 26 * kShape.token_bytes());
  }
}

// Counts the one-token steps that moved rows, and the rows moved.
TEST(Sliding, CopiesOnceInReserveLessOneTimesTheWindow) {
  const std::pair<const char*, uint32_t> cases[] = {{"sliding:reserve=2.0", 20},
                                                    {"sliding:reserve=1.5", 10},
                                                    {"sliding:reserve=1.05", 1},
                                                    {"sliding:reserve=1.12", 3}};  // 2.4 rows
  for (const auto& [spec, every] : cases) {
    Pair p(spec, kShape);
    const SeqId a = p.open();
    uint64_t copies = 0, rows = 0, before = 0;
    for (uint32_t i = 0; i < 200; ++i) {
      p.add(a, 1);
      const uint64_t copied = p.store->usage().copied_bytes;
      if (copied == before) continue;
      ASSERT_EQ(i % every, 0u) << spec;
      ASSERT_EQ(copied - before, std::min(i, kWindow) * kShape.token_bytes()) << spec;
      ++copies;
      rows += std::min(i, kWindow);
      before = copied;
    }
    EXPECT_EQ(copies, (200 - 1) / every) << spec;
    EXPECT_EQ(cost(spec, kShape, {200, 1}).copied_bytes, rows * kShape.token_bytes()) << spec;
  }
}

TEST(Sliding, FillsTheWindowWithoutACopyIfTwiceItIsReserved) {
  Pair p("sliding", kShape);
  const SeqId a = p.open();
  for (uint32_t i = 0; i < kWindow; ++i) p.add(a, 1);
  EXPECT_EQ(p.store->usage().copied_bytes, 0u);
  p.add(a, 1);
  EXPECT_EQ(p.store->usage().copied_bytes, kWindow * kShape.token_bytes());
}

TEST(Sliding, WithoutSpareRowsEveryCommitShiftsTheWindow) {
  Pair p("sliding:reserve=1.0", kShape);
  const SeqId a = p.open();
  for (uint32_t i = 0; i < 50; ++i) {
    const uint64_t before = p.store->usage().copied_bytes;
    p.add(a, 1);
    ASSERT_EQ(p.store->usage().copied_bytes - before,
              std::min(i + 1, kWindow) * kShape.token_bytes());
  }
}

// The input of a static graph: S - 1 rows from the past's row 0; the first ones are padding.
TEST(Sliding, PaddingLiesInFrontOfTheRowsAndIsZero) {
  for (const char* spec : {"sliding", "sliding:reserve=1.2", "sliding:reserve=1.0"}) {
    Pair p(spec, kShape);
    const SeqId a = p.open();
    std::mt19937 random(7);
    for (uint32_t i = 0; i < 30; ++i) {
      if (i % 3 == 0) (void)p.begin({{a, 1 + static_cast<uint32_t>(random() % 9)}});  // dropped
      p.add(a, 1 + random() % 2);
      const uint32_t held = static_cast<uint32_t>(p.held(a).size());
      auto step = p.begin({{a, 1}});
      write_all(*step, kShape, p.fresh);
      base::Arena scratch;
      kernels::View view;
      step->view({.slot = 0, .layer = 1, .head = 2}, scratch, view);
      const kernels::Segment& past = view.past[0];
      ASSERT_EQ(past.runs.size(), 1u);
      ASSERT_EQ(past.runs[0].row + past.runs[0].rows, kWindow);
      ASSERT_EQ(past.runs[0].rows, held);
      for (uint32_t byte = 0; byte < (kWindow - held) * past.k_stride; ++byte) {
        ASSERT_EQ(past.k[byte], std::byte{0}) << spec;
        ASSERT_EQ(past.v[byte], std::byte{0}) << spec;
      }
    }
  }
}

TEST(Sliding, FreshRowsLieBehindTheWindowWhereThereIsRoomForThem) {
  Pair p("sliding:reserve=1.2", kShape);  // 4 spare rows
  const SeqId a = p.open();
  p.add(a, 7);
  for (const uint32_t fresh : {4u, 5u}) {
    auto step = p.begin({{a, fresh}});
    write_all(*step, kShape, p.fresh);
    base::Arena scratch;
    kernels::View view;
    step->view({.slot = 0, .layer = 0, .head = 1}, scratch, view);
    const auto behind = view.past[0].k + kWindow * size_t{view.past[0].k_stride};
    EXPECT_EQ(view.fresh.k == behind, fresh == 4);
    p.expect_shown(*step);
  }
}

TEST(Sliding, AContextOfOneTokenHoldsNoPast) {
  Shape shape = kShape;
  shape.max_tokens = 1;
  Pair p("sliding", shape);
  const SeqId a = p.open();
  for (const uint32_t rows : {1u, 1u, 5u}) {
    p.add(a, rows);
    p.expect_contents();
  }
  EXPECT_EQ(p.store->usage(), (Usage{.sequences = 1}));
  EXPECT_EQ(cost("sliding", shape, {9, 1}).copied_bytes, 0u);
}

TEST(Sliding, EndsWhereTheModelKnowsNoFurtherPosition) {
  const Spec spec = parse_spec("sliding").value();
  auto store = make_store(spec, {.shape = kShape, .limits = {.most_positions = 30}}).value();
  EXPECT_EQ(store->most_tokens(), 30u);
  Slot slot = {store->open({}).seq, 31};
  const auto step = store->begin({{&slot, 1}});
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(step.error().what, "sequence 0: 31 tokens of a context of 30");
  EXPECT_FALSE(cost_of(spec, {.shape = kShape, .limits = {.most_positions = 30}}, {31, 1}).ok());
  EXPECT_TRUE(cost_of(spec, {.shape = kShape, .limits = {.most_positions = 30}}, {30, 1}).ok());
}

TEST(Sliding, TakesADecimalReserveFromOneToTwo) {
  for (const char* good : {"1", "2", "1.0", "1.000001", "1.25"})
    EXPECT_TRUE(sliding_of(kShape, {"sliding", {{"reserve", good}}}).ok()) << good;
  for (const char* bad : {"0.99", "2.000001", "1.", ".5", "1,5", "-1", "1.0000001", "1e0", "nan",
                          " 1", "1.5x", "1.+5", "99999999999999999999"})
    EXPECT_EQ(sliding_of(kShape, {"sliding", {{"reserve", bad}}}).error().message,
              "sliding: reserve='" + std::string(bad) +
                  "' is not a decimal number from 1 to 2 (rows of the buffer, as a multiple of the "
                  "context less one (rounded up to whole rows); the part above 1 is filled with "
                  "new rows between two copies)");
}

// Returns a hash (FNV-1a) of each row of the segments, over keys and values.
std::vector<uint64_t> hashes(std::span<const kernels::Segment> segments, const Shape& shape) {
  std::vector<uint64_t> all;
  for (const kernels::Segment& segment : segments)
    for (const kernels::Run& run : segment.runs)
      for (uint64_t row = run.row; row < run.row + run.rows; ++row) {
        uint64_t hash = 14695981039346656037u;
        for (const bool is_v : {false, true})
          for (size_t i = 0; i < shape.row_bytes(is_v); ++i) {
            const std::byte* at =
                is_v ? segment.v + row * segment.v_stride : segment.k + row * segment.k_stride;
            hash = (hash ^ static_cast<uint64_t>(at[i])) * 1099511628211u;
          }
        all.push_back(hash);
      }
  return all;
}

// A row is quantised once. Copies at the buffer's end, forks and commits must leave its bytes
// unchanged.
TEST(Sliding, AStoredRowIsNeverRewritten) {
  for (const char* spec : {"sliding", "sliding:reserve=1.3", "sliding:reserve=1.0"})
    for (const auto& [k_type, v_type] : kTypes) {
      Shape shape = kShape;
      shape.head_dim = 32;
      shape.k_type = k_type;
      shape.v_type = v_type;
      Pair p(spec, shape);
      std::map<SeqId, std::vector<uint64_t>> written;  // of layer 1, head 2
      written[p.open()] = {};
      std::mt19937 random(5);
      size_t compared = 0;
      for (int i = 0; i < 120; ++i) {
        auto& [seq, expected] = *std::next(written.begin(), i % std::ssize(written));
        auto step = p.begin({{seq, 1 + static_cast<uint32_t>(random() % (i % 9 == 0 ? 30 : 3))}});
        write_all(*step, shape, p.fresh);
        base::Arena scratch;
        kernels::View view;
        step->view({.slot = 0, .layer = 1, .head = 2}, scratch, view);
        const auto past = hashes(view.past.span(), shape);
        ASSERT_TRUE(std::equal(past.begin(), past.end(), expected.end() - std::ssize(past)));
        compared += past.size();
        const auto fresh = hashes({&view.fresh, 1}, shape);
        Kept kept = Kept::all({p.slots});
        std::erase_if(kept.rows[0], [&](uint32_t) { return random() % 4 == 0; });
        for (const uint32_t row : kept.rows[0]) expected.push_back(fresh[row]);
        p.commit(*step, kept);
        step.reset();
        if (i % 50 != 20) continue;
        const SeqId fork = p.store->fork(seq).value();
        p.twin[fork] = p.twin[seq];
        written[fork] = expected;
      }
      EXPECT_GT(compared, 1000u);
    }
}

}  // namespace
}  // namespace kvick::kv::test
