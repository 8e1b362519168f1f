// Forks of `virtual`: what they hold and copy, against the kernel's own count. Larger than 400
// lines because it also tests windows.

#include <chrono>
#include <gtest/gtest.h>
#include <random>

#include "kv/stores/virtual_store.h"
#include "kv/testing/cases.h"
#include "kv/testing/pages.h"

namespace kvick::kv::test {
namespace {

// Rows of 84 bytes, which straddle pages.
constexpr Shape kShape = {.layers = 3, .kv_heads = 2, .head_dim = 42, .max_tokens = 2'000};
constexpr uint64_t kRow = 84, kRegions = 12;

uint64_t page() { return base::page_bytes(); }
// Returns the bytes of `count` pages in every region.
uint64_t pages(uint64_t count) { return count * kRegions * page(); }
uint64_t pages_of(uint64_t rows) { return pages((rows * kRow + page() - 1) / page()); }
// Returns the bytes of a fork's private pages: it shares `shared` rows and has `rows` rows.
uint64_t own_pages_of(uint64_t shared, uint64_t rows) {
  return pages_of(rows) - pages(shared * kRow / page());
}

struct Forks : Pair {
  using Pair::Pair;
  explicit Forks(uint64_t max_bytes = UINT64_MAX) : Pair("virtual", kShape, max_bytes) {}

  SeqId fork(SeqId of) {
    auto made = store->fork(of);
    if (!made.ok()) ADD_FAILURE() << made.error().what;
    twin[*made] = twin[of];
    return *made;
  }
  // Checks that the kernel and usage() both count these pages, in the file and for forks.
  void expect_pages(uint64_t file_bytes, uint64_t own_bytes) const {
    const KernelPages held = kernel_pages();
    EXPECT_EQ(held.file_bytes, file_bytes);
    EXPECT_EQ(held.copied_bytes, own_bytes);
    EXPECT_EQ(store->usage().allocated_bytes, file_bytes + own_bytes);
  }
};

TEST(VirtualFork, HoldsAndCopiesNothing) {
  Forks p;
  const SeqId a = p.open();
  p.add(a, 150);
  const Usage before = p.store->usage();
  for (int i = 0; i < 10; ++i) p.fork(a);
  Usage after = before;
  after.sequences = 11;
  after.shared_bytes = before.used_bytes;
  EXPECT_EQ(p.store->usage(), after);
  p.expect_pages(pages_of(150), 0);
}

TEST(VirtualFork, CopiesThePagesThatItWritesTo) {
  Forks p;
  const SeqId a = p.open();
  p.add(a, 150);  // 12,600 bytes of each region: three pages and a part
  const SeqId b = p.fork(a);
  p.add(b, 1);
  p.expect_pages(pages_of(150), own_pages_of(150, 151));
  EXPECT_EQ(p.store->usage().copied_bytes, own_pages_of(150, 151));
  p.add(b, 50);  // past the file's last page; the file gets no page for these rows
  p.expect_pages(pages_of(150), own_pages_of(150, 201));
  p.add(a, 100);  // in place
  p.expect_pages(pages_of(250), own_pages_of(150, 201));
  EXPECT_EQ(p.store->usage().copied_bytes, own_pages_of(150, 201));
  const Usage usage = p.store->usage();
  EXPECT_EQ(usage.used_bytes, (250 + 51) * kShape.token_bytes());
  EXPECT_EQ(usage.shared_bytes, 150 * kShape.token_bytes());
  p.expect_contents();
}

TEST(VirtualFork, OfRowsThatEndWithAPageCopiesNoSharedRow) {
  Shape shape = kShape;
  shape.head_dim = 32;  // 64 rows a page
  Forks p("virtual", shape);
  const SeqId a = p.open();
  p.add(a, 128);
  const SeqId b = p.fork(a);
  p.add(b, 1);
  EXPECT_EQ(kernel_pages().copied_bytes, pages(1));
  EXPECT_EQ(p.store->usage().allocated_bytes, pages(3));
  p.expect_contents();
}

TEST(VirtualFork, StepsOfSeveralForksAndTheirOriginAreIsolated) {
  Forks p;
  const SeqId a = p.open();
  p.add(a, 90);
  const SeqId b = p.fork(a), c = p.fork(a);
  for (const uint32_t rows : {1u, 40u, 1u, 300u}) {
    auto step = p.begin({{b, rows}, {a, rows + 1}, {c, 2 * rows}});
    write_all(*step, kShape, p.fresh);
    p.expect_shown(*step);
    p.commit(*step, Kept::all({p.slots}));
  }
  p.expect_contents();
  p.expect_pages(pages_of(90 + 346), own_pages_of(90, 90 + 342) + own_pages_of(90, 90 + 684));
}

TEST(VirtualFork, ADroppedStepGivesItsPagesBack) {
  Forks p;
  const SeqId a = p.open();
  p.add(a, 150);
  const SeqId b = p.fork(a);
  const Usage before = p.store->usage();
  {
    auto step = p.begin({{b, 400}});
    write_all(*step, kShape, p.fresh);
    p.expect_pages(pages_of(150), own_pages_of(150, 550));
  }
  p.expect_pages(pages_of(150), 0);
  EXPECT_EQ(p.store->usage().used_bytes, before.used_bytes);
  auto step = p.begin({{b, 400}});
  write_all(*step, kShape, p.fresh);
  p.commit(*step, {.rows = {{3, 7}}});
  p.expect_pages(pages_of(150), own_pages_of(150, 152 + 48));  // and a page for the next rows
  p.expect_contents();
}

TEST(VirtualFork, OutlivesItsOriginAndKeepsOnlyWhatItShares) {
  Forks p;
  const SeqId a = p.open();
  p.add(a, 100);
  const SeqId b = p.fork(a);
  p.add(a, 200);
  const SeqId c = p.fork(a);
  p.add(a, 500);
  p.add(b, 3);
  p.close(a);
  p.expect_pages(pages_of(300), own_pages_of(100, 103));
  EXPECT_EQ(p.store->usage().used_bytes, 303 * kShape.token_bytes());
  EXPECT_EQ(p.store->usage().shared_bytes, 100 * kShape.token_bytes());
  p.add(c, 100);  // where rows of `a` were
  p.expect_contents();
  p.close(c);
  p.expect_pages(pages_of(100), own_pages_of(100, 103));
  p.expect_contents();
  p.close(b);
  p.expect_pages(0, 0);
}

TEST(VirtualFork, OfAForkSharesTheSameRowsAndCopiesWhatThatAdded) {
  Forks p;
  const SeqId a = p.open();
  p.add(a, 150);
  const SeqId b = p.fork(a);
  p.add(b, 51);
  const uint64_t copied = p.store->usage().copied_bytes;
  const SeqId c = p.fork(b);
  p.expect_pages(pages_of(150), 2 * own_pages_of(150, 201));
  EXPECT_EQ(p.store->usage().copied_bytes - copied,
            51 * kShape.token_bytes() + own_pages_of(150, 201));
  p.add(c, 2);
  p.add(b, 1);
  p.close(a);
  p.expect_contents();
}

TEST(VirtualFork, ThatAddedAsMuchAsItSharesMovesOnceAndThenItsForksCopyNothing) {
  Forks p;
  const SeqId a = p.open();
  p.add(a, 100);
  const SeqId b = p.fork(a);
  p.add(b, 100);
  p.close(a);
  const uint64_t copied = p.store->usage().copied_bytes;
  const SeqId c = p.fork(b);
  EXPECT_EQ(p.store->usage().copied_bytes - copied, 200 * kShape.token_bytes());
  p.expect_pages(pages_of(200), 0);
  p.fork(b);
  p.fork(c);
  EXPECT_EQ(p.store->usage().copied_bytes - copied, 200 * kShape.token_bytes());
  p.add(b, 7);
  p.add(c, 9);
  p.expect_contents();
}

TEST(VirtualFork, ThatHasNoRoomToMoveStaysWhereItIs) {
  const uint64_t cap = pages_of(100) + 2 * own_pages_of(100, 200);
  ASSERT_LT(cap, pages_of(100) + own_pages_of(100, 200) + pages_of(200));
  Forks p(cap);
  const SeqId a = p.open();
  p.add(a, 100);
  const SeqId b = p.fork(a);
  p.add(b, 100);
  p.fork(b);
  p.expect_pages(pages_of(100), 2 * own_pages_of(100, 200));
  const Usage before = p.store->usage();
  const auto refused = p.store->fork(b);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().needed_bytes, own_pages_of(100, 200));
  EXPECT_NE(refused.error().what.find("fork of sequence 1"), std::string::npos);
  EXPECT_EQ(p.store->usage(), before);
  p.expect_pages(pages_of(100), 2 * own_pages_of(100, 200));
}

TEST(VirtualFork, NeedsRoomForThePagesThatItWillWriteTo) {
  const uint64_t needed = own_pages_of(150, 151);
  Forks p(pages_of(150) + 2 * needed - 1);
  const SeqId a = p.open();
  p.add(a, 150);
  const SeqId b = p.fork(a), c = p.fork(a);
  const Usage before = p.store->usage();
  EXPECT_EQ(p.begin({{b, 1}, {c, 1}}), nullptr);
  EXPECT_EQ(p.shortage.needed_bytes, 2 * needed);
  EXPECT_EQ(p.store->usage(), before);
  p.add(b, 1);
  EXPECT_EQ(p.begin({{c, 1}}), nullptr);
}

TEST(VirtualFork, IsACopyWhenTheLimitOfMappingsIsNearAndTheStoreSaysSo) {
  Forks p;
  p.store = std::make_unique<VirtualStore>(test_setup(kShape), VirtualOptions{.most_mappings = 10});
  const SeqId a = p.open();
  p.add(a, 150);  // one mapping, shared by many sequences
  std::vector<SeqId> forks;
  for (int i = 0; i < 8; ++i) forks.push_back(p.fork(a));
  EXPECT_EQ(p.store->usage().fallbacks, 0u);
  EXPECT_EQ(p.store->usage().copied_bytes, 0u);
  for (uint64_t i = 1; i <= 3; ++i) {
    p.fork(a);
    EXPECT_EQ(p.store->usage().fallbacks, i);
    EXPECT_EQ(p.store->usage().copied_bytes, i * 150 * kShape.token_bytes());
    p.expect_pages((1 + i) * pages_of(150), 0);
  }
  p.close(forks.back());
  p.fork(a);
  EXPECT_EQ(p.store->usage().fallbacks, 3u);
  p.expect_contents();
}

TEST(VirtualFork, IsACopyWhenTheSystemRefusesItsMapping) {
  if (const std::string why = FullTableOfMappings::unavailable(); !why.empty()) GTEST_SKIP() << why;
  Forks p;
  const SeqId a = p.open();
  p.add(a, 150);
  {
    const FullTableOfMappings full;
    p.fork(a);
  }
  EXPECT_EQ(p.store->usage().fallbacks, 1u);
  EXPECT_EQ(p.store->usage().copied_bytes, 150 * kShape.token_bytes());
  p.expect_contents();
}

TEST(VirtualFork, IsACopyOutsideOfTheFileAndTheStoreSaysSo) {
  Forks p;
  p.store = std::make_unique<VirtualStore>(test_setup(kShape), VirtualOptions{.in_file = false});
  const SeqId a = p.open();
  p.add(a, 150);
  const SeqId b = p.fork(a);
  p.add(b, 1);
  const Usage usage = p.store->usage();
  EXPECT_EQ(usage.fallbacks, 1u);
  EXPECT_EQ(usage.copied_bytes, 150 * kShape.token_bytes());
  EXPECT_EQ(usage.allocated_bytes, pages_of(150) + pages_of(151));
  EXPECT_EQ(kernel_pages().all(), 0u);
  p.expect_contents();
  p.close(a);
  p.close(b);
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
}

TEST(VirtualFork, OfHugePagesIsACopy) {
  if (const std::string why = unavailable("virtual:hugepages=on"); !why.empty())
    GTEST_SKIP() << why;
  Forks p("virtual:hugepages=on", kShape);
  const SeqId a = p.open();
  p.add(a, 150);
  const Usage before = p.store->usage();
  p.fork(a);
  const Usage after = p.store->usage();
  EXPECT_EQ(after.copied_bytes, 150 * kShape.token_bytes());
  EXPECT_EQ(after.allocated_bytes, 2 * before.allocated_bytes);
  EXPECT_EQ(after.fallbacks, 0u);
  p.expect_contents();
}

// Checks after random operations that usage() equals the kernel's count.
void expect_the_kernels_count(const Shape& shape, uint32_t seed) {
  Forks p("virtual", shape);
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
  const auto any = [&] { return std::next(p.twin.begin(), below(p.twin.size()))->first; };
  for (int i = 0; i < (kSanitized ? 100 : 300); ++i) {
    const uint32_t dice = below(10);
    if (p.twin.empty() || dice == 0) {
      if (p.twin.size() < 8) p.open();
    } else if (dice < 3) {
      if (p.twin.size() < 8) p.fork(any());
    } else if (dice < 5) {
      p.close(any());
    } else if (const SeqId seq = any(); p.twin[seq].size() < 1'800) {
      auto step = p.begin({{seq, 1 + below(150)}});
      write_all(*step, shape, p.fresh);
      p.expect_shown(*step);
      if (below(3) != 0) p.commit(*step, {.rows = {std::vector<uint32_t>(below(2), 0)}});
      step.reset();
      if (below(2) != 0) p.add(seq, 1 + below(50));
    }
    ASSERT_EQ(p.store->usage().allocated_bytes, kernel_pages().all()) << i;
  }
  p.expect_contents();
  while (!p.twin.empty()) p.close(any());
  p.expect_pages(0, 0);
}

TEST(VirtualFork, UsageIsTheKernelsCountAfterRandomOperations) {
  expect_the_kernels_count(kShape, 7);
}

TEST(VirtualFork, UsageIsTheKernelsCountAfterRandomOperationsWithAWindow) {
  for (const uint32_t window : {1u, 100u, 700u})
    for (const bool chunked : {false, true}) {
      SCOPED_TRACE(fmt::format("{} tokens, chunked: {}", window, chunked));
      Shape shape = kShape;
      shape.window = window;
      shape.chunked = chunked;
      expect_the_kernels_count(shape, window);
    }
}

Shape with_window(uint32_t rows) {
  Shape shape = kShape;
  shape.head_dim = 32;  // 64 rows a page
  shape.window = rows;
  return shape;
}

TEST(VirtualFork, APageOfTheFileGoesOnceTheWriterAndAllForksHaveMovedPastIt) {
  const Shape shape = with_window(64);
  Forks p("virtual", shape);
  const SeqId a = p.open();
  p.add(a, 128);  // 63 rows are seen, of one page
  p.expect_pages(pages(1), 0);
  const SeqId b = p.fork(a), c = p.fork(a);
  // Pages of the file that the step wrote and no token sees any more are given back.
  p.add(a, 256);
  p.expect_pages(pages(2), 0);
  p.add(b, 64);
  p.expect_pages(pages(2), pages(1));
  p.add(c, 62);  // it still sees the last shared row
  p.expect_pages(pages(2), pages(2));
  p.add(c, 1);
  p.expect_pages(pages(1), pages(2));
  p.add(b, 64);
  p.close(a);
  p.expect_pages(0, pages(2));
}

TEST(VirtualFork, RowsOfAClosedWriterGoAsItsForkMovesOn) {
  const Shape shape = with_window(129);
  Forks p("virtual", shape);
  const SeqId a = p.open();
  p.add(a, 192);  // rows from 64 on are visible: two pages
  const SeqId b = p.fork(a);
  p.close(a);
  p.add(b, 63);
  p.expect_pages(pages(2), pages(1));
  p.add(b, 1);
  p.expect_pages(pages(1), pages(1));
  p.expect_contents();
  const SeqId c = p.fork(b);  // the fork first moves `b` to its own range
  p.add(b, 64);
  p.add(c, 64);
  EXPECT_EQ(p.store->usage().shared_bytes, 64 * shape.token_bytes());
  p.expect_pages(pages(2), pages(1));
  p.expect_contents();
}

// The time is printed, not tested: it depends on the machine.
TEST(VirtualFork, SixtyFourOfALongSequenceCopyNoByte) {
  const Shape shape = {.layers = 30, .kv_heads = 3, .head_dim = 64, .max_tokens = 8'192};
  auto store = make_store({"virtual", {}}, {.shape = shape}).value();
  const SeqId a = store->open({}).seq;
  const Slot slot = {a, 2'000};
  const std::vector<float> rows(size_t{slot.fresh} * shape.kv_heads * shape.head_dim, 0.25f);
  auto step = store->begin({{&slot, 1}}).value();
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    step->write(layer, rows.data(), rows.data());
  step->commit(Kept::all({{&slot, 1}}));
  const Usage before = store->usage();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(store->fork(a).ok());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  const Usage after = store->usage();
  EXPECT_EQ(after.copied_bytes, 0u);
  EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(after.shared_bytes, 2'000 * shape.token_bytes());
  EXPECT_EQ(kernel_pages().copied_bytes, 0u);
  std::printf("64 forks of 2,000 tokens: %.2f ms\n", took.count());
}

}  // namespace
}  // namespace kvick::kv::test
