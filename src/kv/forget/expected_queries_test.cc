// Compares the moments of queries with their definition.

#include "kv/forget/expected_queries.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "kv/testing/rows.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kGroup = 3, kDim = 10;
constexpr Shape kShape = {.layers = 1, .kv_heads = 2, .head_dim = kDim, .max_tokens = 100};
using Queries = std::vector<std::vector<float>>;  // [kGroup][kDim] each

// Elements vary together, and their means are far from 0.
Queries some_queries(uint32_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Queries all;
  for (uint32_t n = 0; n < count; ++n) {
    std::vector<float>& q = all.emplace_back();
    const float shared = normal(random);
    for (uint32_t i = 0; i < kGroup * kDim; ++i)
      q.push_back(20 + static_cast<float>(i) + normal(random) + (i % 2 == 0 ? shared : 0));
  }
  return all;
}

// Returns the mean of (q[i] - mean[i]) (q[j] - mean[j]), and that mean in `mean`.
double covariance(const Queries& queries, uint32_t i, uint32_t j, double& mean) {
  const auto count = static_cast<double>(queries.size());
  double other = 0, sum = 0;
  mean = 0;
  for (const std::vector<float>& q : queries) mean += q[i] / count, other += q[j] / count;
  for (const std::vector<float>& q : queries) sum += (q[i] - mean) * (q[j] - other) / count;
  return sum;
}

void expect_moments(const QueryMoments& moments, size_t head, const Queries& queries,
                    Covariance kind) {
  ASSERT_EQ(moments.count(head), queries.size());
  const auto count = static_cast<double>(queries.size());
  for (uint32_t g = 0; g < kGroup; ++g) {
    size_t at = 0;
    for (uint32_t i = 0; i < kDim; ++i)
      for (uint32_t j = i; j < kDim; ++j) {
        double mean = 0;
        const double expected = covariance(queries, g * kDim + i, g * kDim + j, mean);
        EXPECT_NEAR(moments.mean(head, g)[i], mean, 1e-4);
        if (kind == Covariance::kFull || (kind == Covariance::kDiagonal && i == j)) {
          ASSERT_LT(at, moments.products(head, g).size());
          EXPECT_NEAR(moments.products(head, g)[at++] / count, expected, 1e-3) << i << " " << j;
        }
      }
    EXPECT_EQ(at, moments.products(head, g).size());
  }
}

TEST(QueryMoments, AreTheMeanAndTheCovarianceHoweverQueriesAreAdded) {
  const kernels::Table& kernels = tried_kernels();
  for (const Covariance kind : {Covariance::kOff, Covariance::kDiagonal, Covariance::kFull}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const Expectation how = {.covariance = kind, .group = kGroup};
    std::mt19937 random(3);
    QueryMoments all(kShape, how);
    EXPECT_EQ(all.bytes(), QueryMoments::bytes_of(kShape, how));
    const auto add = [&](QueryMoments& to, const Queries& queries) {
      for (std::vector<float> q : queries) to.add(kernels, 1, q);
    };
    Queries seen = some_queries(5, random);
    add(all, seen);
    expect_moments(all, 1, seen, kind);
    for (const uint32_t more : {0U, 1U, 100U}) {
      const Queries queries = some_queries(more, random);
      seen.insert(seen.end(), queries.begin(), queries.end());
      QueryMoments others(kShape, how);
      add(others, queries);
      all.take(kernels, 1, others);
      expect_moments(all, 1, seen, kind);
    }
    QueryMoments copy(kShape, how);
    copy.take(kernels, 1, all);  // into moments of nothing
    expect_moments(copy, 1, seen, kind);
    EXPECT_EQ(copy.count(0), 0U) << "the other head has no queries";
  }
}

}  // namespace
}  // namespace kvick::kv::test
