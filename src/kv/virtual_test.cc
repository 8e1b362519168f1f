// The claims of `virtual` about the system's memory, checked against the kernel's own count.

#include <fstream>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "kv/conformance_cases.h"
#include "kv/pair.h"
#include "kv/reservation.h"

namespace kvick::kv::test {
namespace {

#if defined(KVICK_SANITIZED)
constexpr bool kSanitized = true;  // a sanitizer needs mappings of its own
#else
constexpr bool kSanitized = false;
#endif

// Bytes of [data, data + bytes) that are in memory now.
uint64_t resident_bytes(const std::byte* data, size_t bytes) {
  const size_t page = base::page_bytes(), pages = (bytes + page - 1) / page;
  std::vector<unsigned char> in_memory(pages);
  EXPECT_EQ(mincore(const_cast<std::byte*>(data), pages * page, in_memory.data()), 0);
  uint64_t count = 0;
  for (const unsigned char bit : in_memory) count += bit & 1;
  return count * page;
}

// Of every region of one sequence, as a step shows them.
uint64_t resident_bytes(Step& step, const Shape& shape) {
  base::Arena scratch;
  kernels::View view;
  uint64_t bytes = 0;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      step.view({.slot = 0, .layer = layer, .head = head}, scratch, view);
      bytes += resident_bytes(view.fresh.k, shape.max_tokens * shape.row_bytes(false));
      bytes += resident_bytes(view.fresh.v, shape.max_tokens * shape.row_bytes(true));
    }
  return bytes;
}

// Rows of 84 bytes, which straddle pages, in regions of 5 MB, in which the kernel could use huge
// pages.
constexpr Shape kShape = {.layers = 3, .kv_heads = 2, .head_dim = 42, .max_tokens = 60'000};

TEST(Virtual, AllocatedBytesAreThePagesThatTheKernelHolds) {
  Pair p("virtual", kShape);
  const SeqId a = p.open();
  for (const uint32_t rows : {1u, 47u, 1u, 48u, 2u, 200u, 300u}) {
    auto step = p.begin({{a, rows}});
    write_all(*step, kShape, p.fresh);
    const Usage usage = p.store->usage();
    EXPECT_EQ(resident_bytes(*step, kShape), usage.allocated_bytes);
    EXPECT_EQ(usage.page_bytes, base::page_bytes());
    p.commit(*step, Kept::all({p.slots}));
    const uint64_t regions = 2ull * kShape.layers * kShape.kv_heads;
    EXPECT_LT(p.store->usage().wasted_bytes, regions * base::page_bytes());
  }
  EXPECT_EQ(p.store->usage().copied_bytes, 0u);
}

TEST(Virtual, LayersThatAreNotWrittenTakeNoMemory) {
  Pair p("virtual", kShape);
  const SeqId a = p.open();
  {
    auto step = p.begin({{a, 100}});
    EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
    write_layer(*step, kShape, p.fresh, 2);
    const uint64_t region =
        (100 * 84 + base::page_bytes() - 1) / base::page_bytes() * base::page_bytes();
    EXPECT_EQ(p.store->usage().allocated_bytes, 4 * region);
  }
  auto step = p.begin({{a, 1}});
  write_all(*step, kShape, p.fresh);
  EXPECT_EQ(resident_bytes(*step, kShape), p.store->usage().allocated_bytes);
}

TEST(Virtual, AForkHoldsPagesOfItsOwn) {
  Pair p("virtual", kShape);
  const SeqId a = p.open();
  p.add(a, 150);
  const uint64_t one = p.store->usage().allocated_bytes;
  const SeqId b = p.store->fork(a).value();
  EXPECT_EQ(p.store->usage().allocated_bytes, 2 * one);
  EXPECT_EQ(p.store->usage().copied_bytes, 150 * kShape.token_bytes());
  auto step = p.begin({{b, 1}});
  write_all(*step, kShape, p.fresh);
  EXPECT_EQ(one + resident_bytes(*step, kShape), p.store->usage().allocated_bytes);
}

uint64_t mapped_bytes() {  // of this process
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * base::page_bytes();
}

TEST(Virtual, CloseGivesTheAddressSpaceBack) {
  Shape shape = kShape;
  shape.max_tokens = 4'000'000;  // 4 GB of addresses
  Pair p("virtual", shape);
  const uint64_t before = mapped_bytes();
  const SeqId a = p.open();
  p.add(a, 1);
  EXPECT_GE(mapped_bytes(), before + (uint64_t{4} << 30) * 9 / 10);
  p.close(a);
  EXPECT_LT(mapped_bytes(), before + (uint64_t{1} << 30));
}

TEST(Virtual, HugePagesAreAccountedInFull) {
  if (const std::string why = unavailable("virtual:hugepages=on"); !why.empty())
    GTEST_SKIP() << why;
  Shape shape = kShape;
  shape.max_tokens = 40'000;  // regions of 3.4 MB, two huge pages
  Pair p("virtual:hugepages=on", shape);
  const SeqId a = p.open();
  auto step = p.begin({{a, 30'000}});
  for (uint32_t layer = 0; layer < shape.layers; ++layer) write_layer(*step, shape, p.fresh, layer);
  const Usage usage = p.store->usage();
  EXPECT_EQ(usage.page_bytes, 2u << 20);
  EXPECT_EQ(usage.allocated_bytes, 12ull * 2 * (2 << 20));
  // When memory is fragmented the kernel makes do with small pages: fewer bytes than are accounted,
  // never more.
  EXPECT_LE(resident_bytes(*step, shape), usage.allocated_bytes);
  EXPECT_GE(resident_bytes(*step, shape), 30'000 * shape.token_bytes());
}

TEST(Virtual, NoAddressSpaceIsAShortageAndChangesNothing) {
  Shape shape = {.layers = 64,
                 .kv_heads = 64,
                 .head_dim = 1024,
                 .max_tokens = 1 << 23,
                 .k_type = kernels::DType::kF32,
                 .v_type = kernels::DType::kF32};  // 2^48 bytes; a process has 2^47
  Pair p("virtual", shape);
  const SeqId a = p.open(), b = p.open();
  const Usage before = p.store->usage();
  EXPECT_EQ(p.begin({{a, 1}, {b, 1}}), nullptr);
  EXPECT_GT(p.shortage.needed_bytes, uint64_t{1} << 47);
  EXPECT_NE(p.shortage.what.find("sequence 0: the system refuses"), std::string::npos);
  EXPECT_NE(p.shortage.what.find("shorter context"), std::string::npos) << p.shortage.what;
  EXPECT_EQ(p.store->usage(), before);
}

TEST(Virtual, AFullTableOfMappingsIsAShortageAndChangesNothing) {
  uint64_t most = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  if (kSanitized || most > 300'000)
    GTEST_SKIP() << "a sanitizer maps too, or all of " << most << " mappings take too long to fill";
  Pair p("virtual", kShape);
  const SeqId a = p.open(), b = p.open();
  p.add(a, 5);
  // Pages of alternating protection cannot be merged into one mapping.
  const size_t page = base::page_bytes(), bytes = (most + 100) * page;
  auto* fence = static_cast<std::byte*>(
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(fence, MAP_FAILED);
  for (size_t i = 0; i < most; i += 2)
    if (mprotect(fence + i * page, page, PROT_READ) != 0) break;
  std::vector<void*> last;  // what mprotect left
  last.reserve(64);
  while (last.size() < 64) {
    void* one = mmap(nullptr, page, last.size() % 2 == 0 ? PROT_READ : PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (one == MAP_FAILED) break;
    last.push_back(one);
  }
  const auto refused = p.begin({{a, 1}, {b, 1}});
  munmap(fence, bytes);
  for (void* one : last) munmap(one, page);
  EXPECT_EQ(refused, nullptr);
  EXPECT_NE(p.shortage.what.find("vm.max_map_count"), std::string::npos) << p.shortage.what;
  p.add(b, 1);
  p.expect_contents();
}

TEST(Virtual, HugePagesAreRefusedWhereTheSystemMakesNone) {
  const auto works = huge_pages_work();
  auto made = make_store(parse_spec("virtual:hugepages=on").value(), {.shape = kShape});
  EXPECT_EQ(made.ok(), works.ok());
  if (!made.ok()) {
    EXPECT_NE(made.error().message.find("hugepages=on"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvick::kv::test
