#include "lab/measure/intervals.h"

#include <gtest/gtest.h>

#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

IntervalProbe probe_of(TestBench& t, const std::string& spec, uint32_t head_dim = 64) {
  return {{.spec = kv::parse_spec(spec).value(), .head_dim = head_dim, .max_tokens = 300},
          t.pool,
          t.bench.kernels};
}

TEST(IntervalProbe, FindsWhatTheGrowthAtTheFirstTokenServes) {
  struct Case {
    const char* spec;
    uint32_t token;
    Interval memory;
  };
  const uint32_t page_rows = static_cast<uint32_t>(base::page_bytes() / (64 * sizeof(float)));
  TestBench t;
  for (const Case& c : {Case{"iterative", 100, {100, 100}}, Case{"iterative", 300, {300, 300}},
                        Case{"upfront", 7, {1, 300}}, Case{"bmc:r=64", 1, {1, 64}},
                        Case{"bmc:r=64", 128, {65, 128}}, Case{"bmc:r=64", 257, {257, 300}},
                        Case{"paged:block=16", 33, {33, 48}},
                        Case{"virtual", page_rows + 1, {page_rows + 1, 2 * page_rows}}}) {
    const auto found = probe_of(t, c.spec).memory(c.token);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->first, c.memory.first) << c.spec << " " << c.token;
    EXPECT_EQ(found->last, c.memory.last) << c.spec << " " << c.token;
  }
}

TEST(IntervalProbe, FindsTheTokensOfOneWidthOfBucket) {
  TestBench t;
  EXPECT_EQ(probe_of(t, "iterative").bucket(9).value(), (Interval{9, 9}));
  EXPECT_EQ(probe_of(t, "bmc:r=64").bucket(65).value(), (Interval{65, 128}));
  EXPECT_EQ(probe_of(t, "upfront").bucket(300).value(), (Interval{1, 300}));
  // The buckets of virtual are wider than its pages.
  EXPECT_EQ(probe_of(t, "virtual").bucket(100).value(), (Interval{65, 128}));
}

// Compares with a token-by-token search, where pages do not hold a whole number of rows.
TEST(IntervalProbe, AgreesWithAStoreThatTakesTokensOneByOne) {
  TestBench t;
  kv::Setup setup;
  setup.shape = {.layers = 1,
                 .kv_heads = 1,
                 .head_dim = 80,
                 .max_tokens = 300,
                 .k_type = kernels::DType::kF32,
                 .v_type = kernels::DType::kF32};
  const auto store = kv::make_store(kv::parse_spec("virtual").value(), setup).value();
  const kv::Slot slot = {.seq = store->open({}).seq, .fresh = 1, .tokens = {}};
  const std::vector<float> row(80);
  std::vector<uint64_t> allocated = {0};
  for (uint32_t token = 1; token <= 300; ++token) {
    auto step = store->begin({.slots = {&slot, 1}}).value();
    step->write(0, row.data(), row.data());
    step->commit(kv::Kept::all({.slots = {&slot, 1}}));
    step.reset();
    allocated.push_back(store->usage().allocated_bytes);
  }
  IntervalProbe probe = probe_of(t, "virtual", 80);
  for (const uint32_t token : {1U, 12U, 13U, 77U, 299U, 300U}) {
    Interval expected = {token, token};
    while (expected.first > 1 && allocated[expected.first - 1] == allocated[token])
      --expected.first;
    while (expected.last < 300 && allocated[expected.last + 1] == allocated[token]) ++expected.last;
    EXPECT_EQ(probe.memory(token).value(), expected) << token;
  }
}

}  // namespace
}  // namespace kvick::lab
