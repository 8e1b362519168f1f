// Growth by copying: iterative, bmc and upfront (and the blocks of sliding), against BMC's
// arithmetic and against the blocks actually allocated.

#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace {

// Blocks of rows are the only over-aligned arrays of this program. These count them, the first in
// bytes.
std::atomic<uint64_t> live_bytes = 0, live_blocks = 0;
std::atomic<uint64_t> blocks_allowed = UINT64_MAX;  // after these, allocation fails
constexpr size_t kHead = 64;                        // the size is kept in front of the block

}  // namespace

void* operator new[](size_t bytes, std::align_val_t align) {
  if (blocks_allowed == 0) throw std::bad_alloc();
  if (blocks_allowed != UINT64_MAX) --blocks_allowed;
  const size_t whole = (bytes + 2 * kHead - 1) / kHead * kHead;
  auto* block = static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(align), whole));
  if (block == nullptr) throw std::bad_alloc();
  *reinterpret_cast<uint64_t*>(block) = bytes;
  live_bytes += bytes;
  ++live_blocks;
  return block + kHead;
}

void operator delete[](void* block, std::align_val_t) noexcept {
  if (block == nullptr) return;
  std::byte* head = static_cast<std::byte*>(block) - kHead;
  live_bytes -= *reinterpret_cast<uint64_t*>(head);
  --live_blocks;
  std::free(head);
}

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {.layers = 3, .kv_heads = 2, .head_dim = 8, .max_tokens = 100};

uint64_t rows(uint64_t count) { return count * kShape.token_bytes(); }

std::string spec_name(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

class Bucket : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Strategies, Bucket,
                         testing::Values("iterative", "bmc:r=1", "bmc:r=16", "bmc", "upfront"),
                         spec_name);
class RowBlocks : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Strategies, RowBlocks,
                         testing::Values("iterative", "bmc:r=1", "bmc:r=16", "bmc", "upfront",
                                         "sliding"),
                         spec_name);

TEST_P(RowBlocks, AllocatedBytesAreTheBlocksThatAreHeld) {
  {
    Pair p(GetParam(), kShape);
    const SeqId a = p.open(), b = p.open();
    EXPECT_EQ(live_bytes, 0u);
    for (const uint32_t n : {5u, 1u, 30u, 1u, 1u}) {
      p.add(a, n);
      EXPECT_EQ(live_bytes, p.store->usage().allocated_bytes);
      EXPECT_EQ(live_blocks, kShape.layers);
    }
    (void)p.begin({{a, 20}, {b, 40}});
    EXPECT_EQ(live_bytes, p.store->usage().allocated_bytes);
    const SeqId c = p.store->fork(a).value();
    EXPECT_EQ(live_bytes, p.store->usage().allocated_bytes);
    p.close(a);
    EXPECT_EQ(live_bytes, p.store->usage().allocated_bytes);
    p.store->close(c);
    EXPECT_EQ(live_bytes, p.store->usage().allocated_bytes);
  }
  EXPECT_EQ(live_bytes, 0u);
}

TEST_P(Bucket, SpareRowsAreZero) {
  Pair p(GetParam(), kShape);
  const SeqId a = p.open();
  for (int i = 0; i < 3; ++i) {
    p.add(a, 11);
    const uint64_t capacity = p.store->usage().allocated_bytes / kShape.token_bytes();
    auto step = p.begin({{a, 1}});
    write_all(*step, kShape, p.fresh);
    base::Arena scratch;
    kernels::View view;
    step->view({.slot = 0, .layer = 2, .head = 1}, scratch, view);
    for (uint64_t row = p.twin[a].size() + 1; row < capacity; ++row)
      for (uint32_t byte = 0; byte < view.fresh.v_stride; ++byte)
        ASSERT_EQ(view.fresh.v[row * view.fresh.v_stride + byte], std::byte{0});
  }
}

TEST(Bmc, CapacityIsTheNextMultipleOfRAndNoMoreThanTheContext) {
  Pair p("bmc:r=16", kShape);
  const SeqId a = p.open();
  p.add(a, 16);
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(16));
  p.add(a, 1);
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(32));
  EXPECT_EQ(p.store->usage().copied_bytes, rows(16));
  p.add(a, 70);
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(96));
  EXPECT_EQ(p.store->usage().copied_bytes, rows(16 + 17));
  p.add(a, 13);
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(100));
}

TEST(Bmc, DefaultsToTheDocumentedR) {
  Pair p("bmc", kShape);
  p.add(p.open(), 1);
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(64));
}

// Equation 1 sums (i+1) * r rows over T growths, r * T * (T+1) / 2; T * r of them are spare rows of
// the new buckets.
TEST(Bmc, MovesWhatEquationOneChargesLessTheSpareRows) {
  const uint64_t n = 96;
  for (const uint64_t r : {1, 2, 8, 32, 96}) {
    Pair p("bmc:r=" + std::to_string(r), kShape);
    const SeqId a = p.open();
    for (uint64_t i = 0; i < n; ++i) p.add(a, 1);
    const uint64_t t = n / r;
    EXPECT_EQ(p.store->usage().copied_bytes, rows(r * t * (t + 1) / 2 - t * r)) << r;
  }
}

TEST(Iterative, HoldsExactlyTheRowsOfEveryStepAndCopiesTheOthers) {
  Pair p("iterative", kShape);
  const SeqId a = p.open();
  p.add(a, 10);
  EXPECT_EQ(p.store->usage().wasted_bytes, 0u);
  (void)p.begin({{a, 30}});  // dropped: growth is not undone
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(40));
  EXPECT_EQ(p.store->usage().copied_bytes, rows(10));
  p.add(a, 1);  // the next step allocates exactly what it needs again
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(11));
  EXPECT_EQ(p.store->usage().copied_bytes, rows(20));
}

TEST(Upfront, TakesTheWholeContextAtTheFirstStepAndNeverCopies) {
  Pair p("upfront", kShape);
  const SeqId a = p.open();
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
  for (int i = 0; i < 100; ++i) {
    p.add(a, 1);
    EXPECT_EQ(p.store->usage().allocated_bytes, rows(100));
  }
  EXPECT_EQ(p.store->usage().copied_bytes, 0u);
}

TEST(Buckets, GrowingCountsTheOldRowsOfALayerUntilTheyAreCopied) {
  // When growing from 32 to 48 rows, the last of three layers grows after the others: 2 * 48 + 32 +
  // 48 rows of a layer.
  for (const uint64_t spare : {0u, 1u}) {
    Pair p("bmc:r=16", kShape, rows(2 * 48 + 32 + 48) / 3 - spare);
    const SeqId a = p.open();
    p.add(a, 32);
    EXPECT_EQ(p.begin({{a, 1}}) != nullptr, spare == 0);
  }
}

#if !defined(KVICK_SANITIZED)
TEST(Buckets, ARefusalOfTheSystemIsAShortage) {
  const Shape huge = {.layers = 1,
                      .kv_heads = 64,
                      .head_dim = 1024,
                      .max_tokens = 1u << 28,
                      .k_type = kernels::DType::kF32,
                      .v_type = kernels::DType::kF32};
  Pair p("bmc:r=200000000", huge);
  const SeqId a = p.open();
  EXPECT_EQ(p.begin({{a, 1}}), nullptr);
  EXPECT_GT(p.shortage.needed_bytes, uint64_t{1} << 46);
  EXPECT_NE(p.shortage.what.find("the system refuses"), std::string::npos) << p.shortage.what;
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
}
#endif

Shape with_window(uint32_t rows) {
  Shape shape = kShape;
  shape.window = rows;
  return shape;
}

TEST(Buckets, WithAWindowHoldAUnitMoreAndMoveTheWindowOnceInAUnit) {
  Pair p("bmc:r=16", with_window(10));
  const SeqId a = p.open();
  p.add(a, 1);
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(16));
  for (int i = 0; i < 16; ++i) p.add(a, 1);  // 25 rows: the window before a step, and a unit
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(25));
  EXPECT_EQ(p.store->usage().copied_bytes, rows(9));
  for (int i = 0; i < 15; ++i) p.add(a, 1);
  EXPECT_EQ(p.store->usage().copied_bytes, rows(9));
  for (int i = 0; i < 17; ++i) p.add(a, 1);
  EXPECT_EQ(p.store->usage().copied_bytes, rows(27));
  EXPECT_EQ(p.store->usage().allocated_bytes, rows(25));
  p.expect_contents();
}

TEST(Buckets, AfterALargeStepTheNextOneTakesSmallerBlocksUnlessThereIsNoRoomForThem) {
  for (const bool room : {true, false}) {
    Pair p("bmc:r=16", with_window(10), room ? UINT64_MAX : rows(69));
    const SeqId a = p.open();
    p.add(a, 60);
    EXPECT_EQ(p.store->usage().allocated_bytes, rows(64));
    p.add(a, 1);
    EXPECT_EQ(p.store->usage().allocated_bytes, rows(room ? 25 : 64));
    p.expect_contents();
  }
}

TEST(Buckets, WithAWindowSpareRowsAreThoseThatMoveNothing) {
  for (const char* spec : {"bmc:r=1", "bmc:r=7", "bmc:r=100000", "upfront"}) {
    Pair p(spec, with_window(10));
    const SeqId a = p.open();
    p.add(a, 13);
    while (p.store->length(a) < 90) {
      ASSERT_NE(p.begin({{a, 1}}), nullptr);
      const uint32_t spare = spare_rows(*p.store, a);
      const uint64_t copied = p.store->usage().copied_bytes;
      if (p.store->length(a) + spare + 1 > kShape.max_tokens) break;
      ASSERT_NE(p.begin({{a, spare}}), nullptr);
      EXPECT_EQ(p.store->usage().copied_bytes, copied);
      ASSERT_NE(p.begin({{a, spare + 1}}), nullptr);
      EXPECT_GT(p.store->usage().copied_bytes, copied);
      p.add(a, 1);
    }
  }
}

// In layers that have grown the first visible row is in front; the other layers must move it there,
// too.
TEST(Buckets, ARefusalBetweenTwoLayersLosesNoRowOfAWindow) {
  for (const uint64_t allowed : {0u, 1u, 2u}) {
    Pair p("bmc:r=16", with_window(10));
    const SeqId a = p.open();
    for (int i = 0; i < 40; ++i) p.add(a, 1);
    for (const uint32_t fresh : {30u, 20u}) {
      blocks_allowed = allowed;
      EXPECT_EQ(p.begin({{a, fresh}}), nullptr);
      blocks_allowed = UINT64_MAX;
    }
    p.expect_contents();
    p.add(a, 18);
    p.expect_contents();
    EXPECT_EQ(live_bytes, p.store->usage().allocated_bytes);
  }
}

TEST(Buckets, CostsOfAbsurdLoadsDoNotWrapAround) {
  const kv::Setup setup = {
      .shape = {.layers = 1, .kv_heads = 1, .head_dim = 1, .max_tokens = UINT32_MAX}};
  const auto cost = cost_of({"iterative", {}}, setup, {UINT32_MAX, UINT32_MAX}).value();
  EXPECT_EQ(cost.copied_bytes, UINT64_MAX);
  EXPECT_EQ(cost.read_bytes_per_token, 4ull * UINT32_MAX);
}

}  // namespace
}  // namespace kvick::kv::test
