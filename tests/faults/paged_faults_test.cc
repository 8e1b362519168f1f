// Tests commits and closes of `paged` without memory: no sequence is lost, and its blocks are no
// longer shared.

#include <gtest/gtest.h>

#include "allocations.h"

#include "kv/registry/registry.h"
#include "kv/strategy/facet_calls.h"
#include "kv/testing/shown.h"

namespace kvick::kv::test {
namespace {

// One sequence with its rows. A row's number is its token.
struct Grown {
  Store& store;
  Shape shape;
  SeqId seq;
  Rows rows;

  // Adds rows; the n-th allocation of the commit fails. Returns whether one failed.
  bool add(uint32_t count, uint64_t n = 0) {
    Rows fresh(count);
    std::iota(fresh.begin(), fresh.end(), static_cast<Row>(rows.size()) + 1);
    const std::vector<Token> tokens(fresh.begin(), fresh.end());
    const Slot slot = {.seq = seq, .fresh = count, .tokens = tokens};
    auto step = store.begin({{&slot, 1}});
    EXPECT_TRUE(step.ok());
    write_all(**step, shape, fresh);
    const auto length = static_cast<uint32_t>(rows.size());
    const uint32_t first = shape.first_seen(length);
    Rows shown(rows.begin() + first, rows.end());
    shown.insert(shown.end(), fresh.begin(), fresh.end());
    expect_shows(**step, shape, {.slot = 0, .committed = length}, shown, count);
    const Kept kept = Kept::all({{&slot, 1}});
    const uint64_t before = faults::failed_allocations();
    faults::fail_nth(n);
    (*step)->commit(kept);
    faults::fail_nth(0);
    rows.insert(rows.end(), fresh.begin(), fresh.end());
    return faults::failed_allocations() > before;
  }
};

class PagedFaults : public testing::TestWithParam<uint32_t> {
 protected:
  Shape shape_ = {
      .layers = 1, .kv_heads = 2, .head_dim = 8, .max_tokens = 200, .window = GetParam()};
  std::unique_ptr<Store> store_ =
      make_store(parse_spec("paged:block=4").value(), {.shape = shape_}).value();
};
INSTANTIATE_TEST_SUITE_P(Windows, PagedFaults, testing::Values(0, 1, 8));

TEST_P(PagedFaults, ACommitThatCannotAllocateLosesNoSequence) {
  bool failed = true;
  for (uint64_t n = 1; failed; ++n) {
    Grown grown = {*store_, shape_, store_->open({}).seq, {}};
    grown.add(6);
    failed = grown.add(30, n);
    EXPECT_EQ(failure(*store_, grown.seq), "") << n;
    ASSERT_EQ(store_->length(grown.seq), 36u);
    for (int i = 0; i < 5; ++i) grown.add(3);
    const SeqId forked = store_->fork(grown.seq).value();
    store_->close(grown.seq);
    store_->close(forked);
    EXPECT_EQ(store_->usage().allocated_bytes, store_->usage().cached_bytes) << n;
    shrink(*store_, UINT64_MAX);
    EXPECT_EQ(store_->usage().allocated_bytes, 0u) << n;
    EXPECT_EQ(store_->usage().cached_bytes, 0u) << n;
    if (n == 1) {
      EXPECT_TRUE(failed);  // else the test tests nothing
    }
  }
}

TEST_P(PagedFaults, ACloseThatCannotAllocateGivesItsBlocksBack) {
  bool failed = true;
  for (uint64_t n = 1; failed; ++n) {
    Grown grown = {*store_, shape_, store_->open({}).seq, {}};
    grown.add(38);
    const uint64_t before = faults::failed_allocations();
    faults::fail_nth(n);
    store_->close(grown.seq);
    faults::fail_nth(0);
    failed = faults::failed_allocations() > before;
    EXPECT_EQ(store_->usage().allocated_bytes, store_->usage().cached_bytes) << n;
    const std::vector<Token> prompt(grown.rows.begin(), grown.rows.end());
    const Opened again = store_->open(prompt);
    EXPECT_EQ(again.cached, failed ? 36u : 38u);
    Grown next = {*store_, shape_, again.seq, {}};
    next.rows.assign(grown.rows.begin(), grown.rows.begin() + again.cached);
    next.add(5);
    store_->close(again.seq);
    shrink(*store_, UINT64_MAX);
    EXPECT_EQ(store_->usage().allocated_bytes, 0u) << n;
  }
}

}  // namespace
}  // namespace kvick::kv::test
