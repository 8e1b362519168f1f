// Compares Quest's choice of pages with its definition.

#include <algorithm>
#include <gtest/gtest.h>

#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kPage = 4, kGroup = 16;  // rows of a page, pages of a group
constexpr uint32_t kSinks = 4, kRecent = 7, kTake = 5;
constexpr Shape kShape = {
    .layers = 1, .kv_heads = 1, .head_dim = 24, .max_tokens = 1000, .k_type = kernels::DType::kF32};

// Returns the bound of a query's product with the keys of rows [begin, end).
double bound_of(const Query& query, const Rows& rows, uint32_t begin, uint32_t end) {
  double bound = 0;
  for (uint32_t i = 0; i < kShape.head_dim; ++i) {
    double most = -1e30;
    for (uint32_t row = begin; row < end; ++row)
      most = std::max(most, double{query.q[i]} * value_of(rows[row], 0, 0, false, i));
    bound += most;
  }
  return bound;
}

// Returns the `take` numbers of `from` with the highest bounds, found by sorting all.
template <class Bound>
std::vector<uint32_t> highest_of(std::vector<uint32_t> from, uint32_t take, const Bound& bound) {
  std::stable_sort(from.begin(), from.end(),
                   [&](uint32_t a, uint32_t b) { return bound(a) > bound(b); });
  from.resize(std::min<size_t>(take, from.size()));
  return from;
}

// One head and one query: the rows that are read, the last of which is fresh. groups: how many
// groups of pages are compared; 0: all.
Rows rows_read(const Query& query, const Rows& rows, uint32_t count, uint32_t groups) {
  const uint32_t first = kSinks / kPage, last = (count - kRecent) / kPage;
  std::vector<uint32_t> pages(last - first);
  for (uint32_t i = 0; i < pages.size(); ++i) pages[i] = first + i;
  if (groups > 0) {
    std::vector<uint32_t> all;
    for (uint32_t group = first / kGroup; group * kGroup < last; ++group) all.push_back(group);
    const auto compared = highest_of(all, groups, [&](uint32_t group) {
      return bound_of(query, rows, group * kGroup * kPage,
                      std::min(count, (group + 1) * kGroup * kPage));
    });
    std::erase_if(pages, [&](uint32_t page) {
      return std::find(compared.begin(), compared.end(), page / kGroup) == compared.end();
    });
  }
  const auto taken = highest_of(pages, kTake, [&](uint32_t page) {
    return bound_of(query, rows, page * kPage, (page + 1) * kPage);
  });
  Rows read;
  for (uint32_t row = 0; row < first * kPage; ++row) read.push_back(rows[row]);
  for (const uint32_t page : taken)
    for (uint32_t row = 0; row < kPage; ++row) read.push_back(rows[page * kPage + row]);
  for (uint32_t row = last * kPage; row < count; ++row) read.push_back(rows[row]);
  std::sort(read.begin(), read.end());
  return read;
}

void expect_reads(Pair& p, SeqId seq, uint32_t groups) {
  const uint32_t count = p.store->length(seq);
  auto step = p.begin({{seq, 1}});
  write_all(*step, kShape, p.fresh);
  base::Arena scratch;
  kernels::View view;
  const Query query = query_of(0, 0, 0);
  step->view(query, scratch, view);
  Rows expected = rows_read(query, p.twin[seq], count, groups);
  Rows shown = positions(view);
  std::sort(shown.begin(), shown.end());
  std::erase_if(shown, [&](uint32_t pos) { return pos >= count; });
  Rows numbers;
  for (const uint32_t pos : shown) numbers.push_back(p.twin[seq][pos]);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, expected) << count << " rows";
}

void add_many(Pair& p, SeqId seq, uint32_t count) {
  for (uint32_t rows = 0; rows < count;) {
    const uint32_t n = std::min(1 + rows % 5, count - rows);
    p.add(seq, n);
    rows += n;
  }
}

std::string policy(const char* more) {
  return fmt::format("quest:page=4,dense_layers=0,sinks=4,recent=7,budget=31{}", more);
}

TEST(Quest, ReadsThePagesWhoseBoundsAreHighest) {
  Pair p("paged:block=7 " + policy(""), kShape);
  const SeqId a = p.open();
  add_many(p, a, 83);
  expect_reads(p, a, 0);
  add_many(p, a, 400);
  expect_reads(p, a, 0);
}

// 5 pages are taken, so the pages of 3 groups of 16 are compared: 1 and 2 that may be cut.
TEST(Quest, ComparesThePagesOfTheGroupsWhoseBoundsAreHighest) {
  Pair p("paged:block=7 " + policy(",candidates=1"), kShape);
  const SeqId a = p.open();
  add_many(p, a, 151);
  expect_reads(p, a, 3);  // of 3 groups
  add_many(p, a, 380);
  expect_reads(p, a, 3);  // of 9
  const SeqId fork = p.fork(a);
  add_many(p, a, 60);
  add_many(p, fork, 36);
  expect_reads(p, a, 3);
  expect_reads(p, fork, 3);
}

// If all groups are compared, their bounds are not read. Otherwise the bounds of 6 groups and of
// the 48 pages of 3 groups are read instead of those of 92 pages.
TEST(Quest, ReadsBoundsOfGroupsOnlyWhereTheyLeavePagesOut) {
  const auto read = [](const char* more, uint32_t tokens) {
    const std::string text = "virtual " + policy(more);
    return cost_of(spec_of(text), setup_for(text, kShape), {.tokens = tokens, .sequences = 1})
        .value()
        .read_bytes_per_token;
  };
  constexpr uint64_t kPageBytes = 2 * kShape.head_dim * sizeof(float);
  EXPECT_EQ(read(",candidates=1", 152), read("", 152));
  EXPECT_EQ(read("", 381) - read(",candidates=1", 381), (92 - 54) * kPageBytes);
}

}  // namespace
}  // namespace kvick::kv::test
