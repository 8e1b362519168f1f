// Compares Quest's choice of pages with its definition.

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kPage = 4, kGroup = 16;  // rows of a page, pages of a group
constexpr uint32_t kSinks = 4, kRecent = 7, kTake = 5;
constexpr Shape kShape = {
    .layers = 1, .kv_heads = 1, .head_dim = 24, .max_tokens = 1000, .k_type = kernels::DType::kF32};

// The tokens of a step, whose queries choose together, and the option.
struct Asked {
  std::vector<const float*> queries;  // [head_dim] each
  double spread = 0;
};

// Rounds each 32 numbers to multiples of a 127th of the largest.
void round_to_8_bits(std::vector<double>& x) {
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    const auto first = x.begin() + static_cast<ptrdiff_t>(begin);
    const auto last = x.begin() + static_cast<ptrdiff_t>(std::min(x.size(), begin + 32));
    double most = 0;
    std::for_each(first, last, [&](double e) { most = std::max(most, std::abs(e)); });
    std::for_each(first, last, [&](double& e) { e = std::round(e / most * 127) * most / 127; });
  }
}

// Returns how high a query's product with the best key of rows [begin, end) is estimated. Only the
// bounds of pages are kept in 8 bits.
double estimate(const float* q, double spread, const Rows& rows, uint32_t begin, uint32_t end) {
  const uint32_t dims = kShape.head_dim;
  std::vector<double> bounds(dims, -1e30);  // most, least
  bounds.resize(2 * size_t{dims}, 1e30);
  for (uint32_t i = 0; i < dims; ++i)
    for (uint32_t row = begin; row < end; ++row) {
      const double value = value_of(rows[row], 0, 0, false, i);
      bounds[i] = std::max(bounds[i], value), bounds[dims + i] = std::min(bounds[dims + i], value);
    }
  if (end - begin <= kPage) round_to_8_bits(bounds);
  double sum = 0;
  for (uint32_t i = 0; i < dims; ++i) {
    const double most = bounds[i], least = bounds[dims + i];
    sum += q[i] * (most + least) / 2 + spread * std::abs(q[i]) * (most - least) / 2;
  }
  return sum / std::sqrt(double{kShape.head_dim});
}

// Returns the `take` of these numbers, of `rows_each` rows each, that have the highest sums of
// probabilities, found by sorting all.
std::vector<uint32_t> highest_of(const std::vector<uint32_t>& from, uint32_t take,
                                 const Asked& asked, const Rows& rows, uint32_t rows_each,
                                 uint32_t count) {
  std::map<uint32_t, double> weights;
  for (const float* q : asked.queries) {
    std::map<uint32_t, double> of_query;
    double sum = 0;
    for (const uint32_t number : from) {
      const uint32_t begin = number * rows_each, end = std::min(count, begin + rows_each);
      sum += of_query[number] = std::exp(estimate(q, asked.spread, rows, begin, end));
    }
    for (const auto& [number, weight] : of_query) weights[number] += weight / sum;
  }
  std::vector<uint32_t> order = from;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return weights[a] > weights[b]; });
  order.resize(std::min<size_t>(take, order.size()));
  return order;
}

// The committed rows that are read. groups: how many groups of pages are compared; 0: all.
Rows rows_read(const Asked& asked, const Rows& rows, uint32_t count, uint32_t groups) {
  const uint32_t first = kSinks / kPage, last = (count - kRecent) / kPage;
  std::vector<uint32_t> pages(last - first);
  for (uint32_t i = 0; i < pages.size(); ++i) pages[i] = first + i;
  if (groups > 0) {
    std::vector<uint32_t> all;
    for (uint32_t group = first / kGroup; group * kGroup < last; ++group) all.push_back(group);
    const auto compared = highest_of(all, groups, asked, rows, kGroup * kPage, count);
    std::erase_if(pages, [&](uint32_t page) {
      return std::find(compared.begin(), compared.end(), page / kGroup) == compared.end();
    });
  }
  Rows read;
  for (uint32_t row = 0; row < first * kPage; ++row) read.push_back(rows[row]);
  for (const uint32_t page : highest_of(pages, kTake, asked, rows, kPage, count))
    for (uint32_t row = 0; row < kPage; ++row) read.push_back(rows[page * kPage + row]);
  for (uint32_t row = last * kPage; row < count; ++row) read.push_back(rows[row]);
  std::sort(read.begin(), read.end());
  return read;
}

void expect_reads(Pair& p, SeqId seq, uint32_t groups, double spread = 0.3, uint32_t tokens = 1) {
  const uint32_t count = p.store->length(seq);
  auto step = p.begin({{seq, tokens}});
  write_all(*step, kShape, p.fresh);
  base::Arena scratch;
  kernels::View view;
  Query query = query_of(0, 0, 0);
  // Small queries, so that no probability underflows to zero.
  std::vector<float> small(query.q, query.q + size_t{tokens} * query.q_stride);
  for (float& x : small) x /= 8;
  query.q = small.data();
  step->view(query, scratch, view);
  Asked asked = {.queries = {}, .spread = spread};
  for (uint32_t t = 0; t < tokens; ++t) asked.queries.push_back(query.q + t * query.q_stride);
  Rows numbers;
  for (const uint32_t pos : positions(view)) numbers.push_back(p.twin[seq][pos]);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, rows_read(asked, p.twin[seq], count, groups)) << count << " rows";
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

TEST(Quest, ReadsThePagesWhoseBestKeysAreEstimatedHighest) {
  for (const double spread : {0.3, 1.0, 0.0}) {
    const std::string option = spread == 0.3 ? "" : fmt::format(",spread={}", spread);
    Pair p("paged:block=7 " + policy(option.c_str()), kShape);
    const SeqId a = p.open();
    add_many(p, a, 83);
    expect_reads(p, a, 0, spread);
    add_many(p, a, 400);
    expect_reads(p, a, 0, spread);
    expect_reads(p, a, 0, spread, 3);  // tokens, whose queries choose together
  }
}

// 5 pages are taken, so the pages of 3 groups of 16 are compared: 1 and 2 that may be cut.
TEST(Quest, ComparesThePagesOfTheBestGroups) {
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
  // In 8 bits with two scales, and whole.
  constexpr uint64_t kPageBytes = 2 * kShape.head_dim + 2 * sizeof(float);
  constexpr uint64_t kGroupBytes = 2 * kShape.head_dim * sizeof(float);
  EXPECT_EQ(read(",candidates=1", 152), read("", 152));
  EXPECT_EQ(read("", 381) + 6 * kGroupBytes - read(",candidates=1", 381), (92 - 48) * kPageBytes);
}

}  // namespace
}  // namespace kvick::kv::test
