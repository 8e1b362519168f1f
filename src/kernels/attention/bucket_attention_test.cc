#include "kernels/attention/bucket_attention.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace kvick::kernels {
namespace {

// The definition, for one head and query over the rows whose bias is 0.
std::vector<double> naive(const float* q, const float* k, const float* v, const float* bias,
                          const BucketShape& shape) {
  std::vector<double> out(shape.head_dim);
  double sum = 0;
  for (uint32_t row = 0; row < shape.rows; ++row) {
    if (bias[row] != 0) continue;
    double dot = 0;
    for (uint32_t d = 0; d < shape.head_dim; ++d) dot += double{q[d]} * k[row * shape.head_dim + d];
    const double p = std::exp(dot * shape.scale);
    sum += p;
    for (uint32_t d = 0; d < shape.head_dim; ++d) out[d] += p * v[row * shape.head_dim + d];
  }
  for (double& x : out) x /= sum;
  return out;
}

struct Problem {
  explicit Problem(const BucketShape& of) : shape(of) {
    std::mt19937 random(shape.rows + shape.queries);
    std::uniform_real_distribution<float> value(-1, 1);
    for (auto* all : {&q, &k, &v, &bias, &logits, &out}) all->resize(1);
    q.resize(size_t{shape.heads} * shape.queries * shape.head_dim);
    k.resize(shape.heads * shape.head_stride);
    v.resize(k.size());
    bias.resize(size_t{shape.one_bias ? 1 : shape.queries} * shape.rows);
    logits.resize(size_t{shape.heads} * shape.queries * shape.rows);
    out.resize(q.size());
    for (auto* all : {&q, &k, &v})
      for (float& x : *all) x = value(random);
    for (size_t i = 0; i < bias.size(); ++i)
      bias[i] = i % shape.rows == 0 || random() % 3 > 0 ? 0 : kUnseen;
  }
  void run(BucketAttention& library) {
    std::vector<std::byte> scratch(library.prepare(shape) + 64);
    library.run(shape, {.q = q.data(),
                        .k = k.data(),
                        .v = v.data(),
                        .bias = bias.data(),
                        .logits = logits.data(),
                        .out = out.data(),
                        .scratch = scratch.data()});
  }

  BucketShape shape;
  std::vector<float> q, k, v, bias, logits, out;
};

BucketShape shape_of(uint32_t heads, uint32_t queries, uint32_t rows, bool one_bias) {
  constexpr uint32_t kDim = 24, kSpare = 5;  // rows between two heads
  return {.heads = heads,
          .queries = queries,
          .rows = rows,
          .head_dim = kDim,
          .head_stride = (rows + kSpare) * uint64_t{kDim},
          .one_bias = one_bias,
          .scale = 0.3F};
}

TEST(BucketAttention, IsTheSoftmaxOverTheRowsThatTheBiasLeaves) {
  BucketAttention library;
  for (const BucketShape& shape :
       {shape_of(3, 1, 1, true), shape_of(2, 4, 64, true), shape_of(5, 3, 77, true),
        shape_of(1, 12, 130, false), shape_of(2, 7, 33, false)}) {
    Problem p(shape);
    p.run(library);
    for (uint32_t i = 0; i < shape.heads * shape.queries; ++i) {
      const uint32_t head = i / shape.queries, query = i % shape.queries;
      const float* bias = p.bias.data() + (shape.one_bias ? 0 : size_t{query} * shape.rows);
      const auto expected = naive(&p.q[size_t{i} * shape.head_dim], &p.k[head * shape.head_stride],
                                  &p.v[head * shape.head_stride], bias, shape);
      for (uint32_t d = 0; d < shape.head_dim; ++d)
        ASSERT_NEAR(p.out[size_t{i} * shape.head_dim + d], expected[d], 1e-5)
            << "rows " << shape.rows << " query " << i;
    }
  }
}

double g_now = 0;
double ticking() { return g_now += 1; }

TEST(BucketAttention, CompilesEachShapeOnceAndCountsIt) {
  BucketAttention library(ticking);
  EXPECT_EQ(library.compiled().shapes, 0u);
  Problem a(shape_of(2, 1, 8, true)), b(shape_of(2, 1, 16, true));
  for (int i = 0; i < 3; ++i) {
    a.run(library);
    b.run(library);
  }
  library.prepare(a.shape);
  EXPECT_EQ(library.compiled().shapes, 2u);
  EXPECT_EQ(library.compiled().seconds, 2.0);  // one tick each
}

}  // namespace
}  // namespace kvick::kernels
