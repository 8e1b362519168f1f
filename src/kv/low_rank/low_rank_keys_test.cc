// Compares the choice by low-rank keys and by bounds of their pages with its definition.

#include "kv/low_rank/low_rank_keys.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "kernels/table/table.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kPage = 16;

std::vector<float> random_floats(size_t n, float size, std::mt19937& random) {
  std::normal_distribution<float> normal(0, size);
  std::vector<float> made(n);
  for (float& x : made) x = normal(random);
  return made;
}

// Returns the softmax probabilities of these products.
std::vector<double> softmax(std::vector<double> x) {
  const double most = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& e : x) sum += e = std::exp(e - most);
  for (double& e : x) e /= sum;
  return x;
}

// Returns the indices of the `take` highest weights, ascending.
std::vector<uint32_t> heaviest(const std::vector<double>& weights, uint32_t take) {
  std::vector<uint32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return weights[a] > weights[b]; });
  order.resize(take);
  std::sort(order.begin(), order.end());
  return order;
}

struct Case {
  uint32_t rank = 0, rows = 0;
  TopRows top_rows;
  uint64_t candidates = 0;
  size_t queries = 1;
};

// The blocks of one layer and head in which low-rank keys were put, row by row.
struct Rig {
  Rig(const kernels::Table& table, kernels::DType type, const Case& of, uint32_t seed)
      : kernels(table), asked(of), keys(table, of.rank, type, {.factor = of.candidates * 1000000}) {
    std::mt19937 random(seed);
    const bool codes = type == kernels::DType::kStatic8;
    made = random_floats(size_t{of.rows} * of.rank, codes ? 30.0F : 1.0F, random);
    queries = random_floats(of.queries * of.rank, codes ? 0.03F : 1.0F, random);
    const SummaryShape shape = keys.summary();
    for (uint32_t row = 0; row < of.rows; row += shape.rows)
      blocks.push_back(SummaryBlock(new std::byte[shape.bytes]));
    RowsOfHead head = {.segment = {}, .blocks = blocks};
    std::vector<std::byte> stored(keys.row_bytes());
    for (uint32_t row = 0; row < of.rows; ++row) {
      float* const key = &made[size_t{row} * of.rank];
      table.store_row(type, key, of.rank, stored.data());
      keys.put(head, row, std::span<const std::byte>(stored));
      kernels::to_f32(type, stored.data(), of.rank, key);
    }
  }

  std::vector<uint32_t> choose() {
    const std::vector<const float*> none(asked.queries);
    const SelectRequest question = {.rows = {.segment = {}, .blocks = blocks},
                                    .count = asked.rows,
                                    .top_rows = asked.top_rows,
                                    .queries = none};
    base::Arena scratch;
    SelectedRows choice;
    keys.choose(question, queries, scratch, choice);
    return {choice.rows.begin(), choice.rows.end()};
  }

  // Sums over the queries the probabilities of pages by their bounds, and those of rows.
  std::vector<double> page_weights() const {
    const uint32_t first = asked.top_rows.first / kPage;
    const uint32_t last = (asked.top_rows.last + kPage - 1) / kPage;
    return weights(last - first, [&](const float* q, uint32_t i) {
      double bound = 0;
      for (uint32_t r = 0; r < asked.rank; ++r) {
        double most = -1e30;
        const uint32_t begin = (first + i) * kPage;
        for (uint32_t row = begin; row < std::min(asked.rows, begin + kPage); ++row)
          most = std::max(most, double{q[r]} * made[size_t{row} * asked.rank + r]);
        bound += most;
      }
      return bound;
    });
  }
  std::vector<double> row_weights(const std::vector<uint32_t>& rows) const {
    return weights(static_cast<uint32_t>(rows.size()), [&](const float* q, uint32_t i) {
      double sum = 0;
      for (uint32_t r = 0; r < asked.rank; ++r)
        sum += double{q[r]} * made[size_t{rows[i]} * asked.rank + r];
      return sum;
    });
  }
  template <class Product>
  std::vector<double> weights(uint32_t count, const Product& product) const {
    std::vector<double> sums(count);
    for (size_t query = 0; query < asked.queries; ++query) {
      std::vector<double> of_query(count);
      for (uint32_t i = 0; i < count; ++i) of_query[i] = product(&queries[query * asked.rank], i);
      of_query = softmax(std::move(of_query));
      for (uint32_t i = 0; i < count; ++i) sums[i] += of_query[i];
    }
    return sums;
  }

  // The rows that are weighed: those of the pages with the highest weights.
  std::vector<uint32_t> candidates() const {
    const std::vector<double> of_pages = page_weights();
    const auto count = static_cast<uint32_t>(of_pages.size());
    const uint32_t most =
        asked.candidates == 0
            ? count
            : static_cast<uint32_t>((asked.top_rows.take * asked.candidates + kPage - 1) / kPage +
                                    2);
    std::vector<uint32_t> rows;
    for (const uint32_t page : heaviest(of_pages, std::min(count, most)))
      for (uint32_t i = 0; i < kPage; ++i) {
        const uint32_t row = (asked.top_rows.first / kPage + page) * kPage + i;
        if (row >= asked.top_rows.first && row < asked.top_rows.last) rows.push_back(row);
      }
    return rows;
  }

  const kernels::Table& kernels;
  Case asked;
  LowRankKeys keys;
  std::vector<float> made;     // keys as they are stored, [rows][rank]
  std::vector<float> queries;  // [queries][rank]
  std::vector<SummaryBlock> blocks;
};

TEST(LowRankKeys, ChoosesTheHeaviestRowsOfTheHeaviestPages) {
  const Case cases[] = {
      {.rank = 8, .rows = 600, .top_rows = {4, 580, 100}},
      {.rank = 8, .rows = 600, .top_rows = {4, 580, 48}, .candidates = 2},
      {.rank = 16, .rows = 1000, .top_rows = {0, 999, 60}, .candidates = 4, .queries = 6},
      {.rank = 6, .rows = 530, .top_rows = {19, 513, 33}, .candidates = 1, .queries = 3},
      {.rank = 5, .rows = 300, .top_rows = {3, 290, 20}, .candidates = 3, .queries = 2},
      {.rank = 4, .rows = 100, .top_rows = {4, 90, 60}, .candidates = 7}};
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    SCOPED_TRACE(base::isa_name(isa));
    const kernels::Table& table = kernels::table(isa);
    for (const kernels::DType type : {kernels::DType::kStatic8, kernels::DType::kF16})
      for (const Case& some : cases) {
        Rig rig(table, type, some, 5 + some.rank);
        const std::vector<uint32_t> chosen = rig.choose();
        const std::vector<uint32_t> weighed = rig.candidates();
        ASSERT_EQ(chosen.size(), some.top_rows.take);
        EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
        if (some.candidates == 1) {
          EXPECT_LT(weighed.size(), some.top_rows.last - some.top_rows.first);
        }
        // Chosen rows are candidates, and no candidate that was left out weighs more, but for the
        // rounding of queries and probabilities.
        const std::vector<double> weights = rig.row_weights(weighed);
        std::vector<double> of_chosen;
        for (const uint32_t row : chosen) {
          const auto at = std::lower_bound(weighed.begin(), weighed.end(), row);
          ASSERT_TRUE(at != weighed.end() && *at == row) << "rank " << some.rank << " row " << row;
          of_chosen.push_back(weights[static_cast<size_t>(at - weighed.begin())]);
        }
        std::vector<double> best;
        for (const uint32_t i : heaviest(weights, some.top_rows.take)) best.push_back(weights[i]);
        std::sort(best.begin(), best.end());
        std::sort(of_chosen.begin(), of_chosen.end());
        for (size_t i = 0; i < best.size(); ++i)
          EXPECT_NEAR(of_chosen[i], best[i], 2e-3 * best[i] + 1e-7) << "rank " << some.rank;
      }
  }
}

TEST(LowRankKeys, ReadsFewBytesOfManyRows) {
  const LowRankKeys all(kernels::table(base::Isa::kScalar), 16, kernels::DType::kStatic8, {});
  const LowRankKeys some(kernels::table(base::Isa::kScalar), 16, kernels::DType::kStatic8,
                         {.factor = 4000000});
  EXPECT_EQ(all.summary().bytes, 256u * 16);
  EXPECT_EQ(some.summary().bytes, 256u * 16 + 16 * 32);
  const TopRows top_rows = {0, 131072, 2048};
  EXPECT_EQ(all.choice_bytes(top_rows), 131072u * 16);
  // 8,192 pages of two keys, and 514 pages of 16.
  EXPECT_EQ(some.choice_bytes(top_rows), 8192u * 32 + 514 * 256);
  // With as many candidates as there are pages, all rows are weighed and no bounds are read.
  EXPECT_EQ(some.choice_bytes({4, 1004, 260}), 1000u * 16);
  EXPECT_EQ(some.choice_bytes({8, 1032, 240}), (65u * 2 + 62 * 16) * 16);
}

}  // namespace
}  // namespace kvick::kv
