// The claims of `virtual` about the system's memory, checked against the kernel's own count.

#include <fstream>
#include <gtest/gtest.h>

#include "kv/testing/cases.h"
#include "kv/testing/pages.h"

namespace kvick::kv::test {
namespace {

// Rows of 84 bytes, which straddle pages, in regions of 5 MB, for which the kernel could use huge
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

uint64_t mapped_bytes() {  // of this process
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * base::page_bytes();
}

TEST(Virtual, CloseGivesThePagesBackAndKeepsTheAddressesForTheNextSequence) {
  Pair p("virtual", kShape);
  const SeqId a = p.open(), b = p.open();
  p.add(a, 500);
  p.add(b, 500);
  const uint64_t mapped = mapped_bytes(), two = p.store->usage().allocated_bytes;
  EXPECT_EQ(kernel_pages().file_bytes, two);
  p.close(a);
  EXPECT_EQ(p.store->usage().allocated_bytes, two / 2);
  EXPECT_EQ(kernel_pages().file_bytes, two / 2);
  p.close(b);
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
  EXPECT_EQ(kernel_pages().all(), 0u);
  for (int i = 0; i < 100; ++i) {
    const SeqId next = p.open();
    p.add(next, 40);
    p.expect_contents();
    p.close(next);
  }
  EXPECT_LT(mapped_bytes(), mapped + (uint64_t{1} << 29));  // of 100 sequences: 6 GB
}

TEST(Virtual, TheStoreGivesTheAddressSpaceBack) {
  Shape shape = kShape;
  shape.max_tokens = 4'000'000;  // 4 GB of addresses a sequence
  const uint64_t before = mapped_bytes();
  {
    Pair p("virtual", shape);
    p.add(p.open(), 1);
    EXPECT_GE(mapped_bytes(), before + (uint64_t{4} << 30) * 9 / 10);
  }
  EXPECT_LT(mapped_bytes(), before + (uint64_t{1} << 30));
}

// Returns the bytes of the pages that hold `rows` rows in every region.
uint64_t pages_of(uint64_t rows) {
  const uint64_t page = base::page_bytes(), regions = 2ull * kShape.layers * kShape.kv_heads;
  return regions * ((rows * 84 + page - 1) / page) * page;
}

// 48 rows of 84 bytes fit a page.
TEST(Virtual, PagesOfRowsThatWereNotKeptGoBackButForThoseOfTheNextRows) {
  Pair p("virtual", kShape);
  const SeqId a = p.open();
  p.add(a, 100);
  auto step = p.begin({{a, 1000}});
  write_all(*step, kShape, p.fresh);
  EXPECT_EQ(p.store->usage().allocated_bytes, pages_of(1100));
  p.commit(*step, {.rows = {{0, 1, 5}}});
  EXPECT_EQ(p.store->usage().allocated_bytes, pages_of(103 + 48));
  EXPECT_EQ(kernel_pages().file_bytes, pages_of(103 + 48));
  p.add(a, 120);
  EXPECT_EQ(p.store->usage().allocated_bytes, pages_of(223));
  step.reset();  // the step ended with its commit: later rows stay
  EXPECT_EQ(kernel_pages().file_bytes, pages_of(223));
  p.expect_contents();
}

TEST(Virtual, DraftsThatCrossAPagesEndAgainAndAgainMeetTheSamePage) {
  Pair p("virtual", kShape);
  const SeqId a = p.open();
  p.add(a, 46);
  for (uint32_t rows = 47; rows < 60; ++rows) {
    auto step = p.begin({{a, 5}});
    write_all(*step, kShape, p.fresh);
    p.commit(*step, {.rows = {{0}}});
    EXPECT_EQ(p.store->usage().allocated_bytes, pages_of(50));
    EXPECT_EQ(kernel_pages().file_bytes, pages_of(50));
    const Usage before = p.store->usage();
    step = p.begin({{a, 300}});
    write_layer(*step, kShape, p.fresh, 0);
    step.reset();
    EXPECT_EQ(p.store->usage(), before);
    EXPECT_EQ(kernel_pages().file_bytes, pages_of(50));
  }
  p.expect_contents();
  p.close(a);
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
  EXPECT_EQ(kernel_pages().file_bytes, 0u);
}

TEST(Virtual, ADroppedStepGivesItsPagesBack) {
  Pair p("virtual", kShape);
  const SeqId a = p.open(), b = p.open();
  p.add(a, 100);
  const Usage before = p.store->usage();
  {
    auto step = p.begin({{a, 1000}, {b, 1000}});
    write_layer(*step, kShape, p.fresh, 1);
    EXPECT_GT(p.store->usage().allocated_bytes, before.allocated_bytes);
  }
  EXPECT_EQ(p.store->usage(), before);
  EXPECT_EQ(kernel_pages().file_bytes, before.allocated_bytes);
}

TEST(Virtual, WhatALibraryReadsPastTheRowsIsCounted) {
  Pair p("virtual", kShape);
  const SeqId a = p.open();
  auto step = p.begin({{a, 10}});  // one page; its bucket of 64 rows spans two
  write_all(*step, kShape, p.fresh);
  base::Arena scratch;
  kernels::View view;
  step->view({.slot = 0, .layer = 1, .head = 0}, scratch, view);
  ASSERT_EQ(view.fresh.bucket.rows, 64u);
  EXPECT_EQ(p.store->usage().allocated_bytes, pages_of(10));
  EXPECT_EQ(view.fresh.k[63 * 84], std::byte{0});
  EXPECT_EQ(p.store->usage().allocated_bytes, pages_of(10) + base::page_bytes());
  p.commit(*step, Kept::all({p.slots}));
  p.add(a, 54);  // also writes into that page
  EXPECT_EQ(p.store->usage().allocated_bytes, pages_of(64));
  p.close(a);
  EXPECT_EQ(p.store->usage().allocated_bytes, 0u);
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
  // When memory is fragmented the kernel falls back to small pages: fewer bytes than accounted,
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
  if (const std::string why = FullTableOfMappings::unavailable(); !why.empty()) GTEST_SKIP() << why;
  Pair p("virtual", kShape);
  const SeqId a = p.open(), b = p.open();
  {
    const FullTableOfMappings full;
    EXPECT_EQ(p.begin({{a, 1}, {b, 1}}), nullptr);
  }
  EXPECT_NE(p.shortage.what.find("vm.max_map_count"), std::string::npos) << p.shortage.what;
  p.add(b, 1);
  p.expect_contents();
  const FullTableOfMappings full;
  p.add(a, 1);  // in the same mapping
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
