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
  std::vector<double> out(shape.v_dim);
  double sum = 0;
  for (uint32_t row = 0; row < shape.rows; ++row) {
    if (bias[row] != 0) continue;
    double dot = 0;
    for (uint32_t d = 0; d < shape.k_dim; ++d) dot += double{q[d]} * k[row * shape.k_dim + d];
    const double p = std::exp(dot * shape.scale);
    sum += p;
    for (uint32_t d = 0; d < shape.v_dim; ++d) out[d] += p * v[row * shape.v_stride + d];
  }
  for (double& x : out) x /= sum;
  return out;
}

struct Problem {
  explicit Problem(const BucketShape& of) : shape(of) {
    std::mt19937 random(shape.rows + shape.queries);
    std::uniform_real_distribution<float> value(-1, 1);
    for (auto* all : {&q, &k, &v, &bias, &logits, &out}) all->resize(1);
    q.resize(size_t{shape.heads} * shape.queries * shape.k_dim);
    k.resize(shape.heads * shape.k_head_stride);
    v.resize(shape.heads * shape.v_head_stride);
    bias.resize(size_t{shape.one_bias ? 1 : shape.queries} * shape.rows);
    logits.resize(size_t{shape.heads} * shape.queries * shape.rows);
    out.resize(size_t{shape.heads} * shape.queries * shape.v_dim);
    for (auto* all : {&q, &k, &v})
      for (float& x : *all) x = value(random);
    for (size_t i = 0; i < bias.size(); ++i)
      bias[i] = i % shape.rows == 0 || random() % 3 > 0 ? 0 : kUnseen;
  }
  void run(BucketAttention& library) {
    std::vector<std::byte> scratch(library.prepare(shape) + 64);
    library.run(shape, {.q = q.data(),
                        .k = k.data(),
                        .v = latent ? k.data() : v.data(),
                        .bias = bias.data(),
                        .logits = logits.data(),
                        .out = out.data(),
                        .scratch = scratch.data()});
  }

  BucketShape shape;
  bool latent = false;
  std::vector<float> q, k, v, bias, logits, out;
};

BucketShape shape_of(uint32_t heads, uint32_t queries, uint32_t rows, bool one_bias) {
  constexpr uint32_t kDim = 24, kValueDim = 16, kSpare = 5;  // spare rows between two heads
  return {.heads = heads,
          .queries = queries,
          .rows = rows,
          .k_dim = kDim,
          .v_dim = kValueDim,
          .v_stride = kValueDim,
          .k_head_stride = (rows + kSpare) * uint64_t{kDim},
          .v_head_stride = (rows + kSpare) * uint64_t{kValueDim},
          .one_bias = one_bias,
          .scale = 0.3F};
}

void expect_softmax(Problem& p, BucketAttention& library) {
  p.run(library);
  const BucketShape& shape = p.shape;
  for (uint32_t i = 0; i < shape.heads * shape.queries; ++i) {
    const uint32_t head = i / shape.queries, query = i % shape.queries;
    const float* bias = p.bias.data() + (shape.one_bias ? 0 : size_t{query} * shape.rows);
    const float* v = (p.latent ? p.k : p.v).data() + head * shape.v_head_stride;
    const auto expected =
        naive(&p.q[size_t{i} * shape.k_dim], &p.k[head * shape.k_head_stride], v, bias, shape);
    for (uint32_t d = 0; d < shape.v_dim; ++d)
      ASSERT_NEAR(p.out[size_t{i} * shape.v_dim + d], expected[d], 1e-5)
          << "rows " << shape.rows << " query " << i;
  }
}

TEST(BucketAttention, IsTheSoftmaxOverTheRowsThatTheBiasLeaves) {
  BucketAttention library;
  for (const BucketShape& shape :
       {shape_of(3, 1, 1, true), shape_of(2, 4, 64, true), shape_of(5, 3, 77, true),
        shape_of(1, 12, 130, false), shape_of(2, 7, 33, false)}) {
    Problem p(shape);
    expect_softmax(p, library);
  }
}

TEST(BucketAttention, TakesTheBeginningsOfLatentKeysAsValues) {
  BucketAttention library;
  BucketShape shape = shape_of(2, 3, 50, true);
  shape.v_stride = shape.k_dim;
  shape.v_head_stride = shape.k_head_stride;
  Problem p(shape);
  p.latent = true;
  expect_softmax(p, library);
}

TEST(BucketAttention, ServesWindowsButNoSoftcapAndNoSinks) {
  const float sink = 0;
  EXPECT_TRUE(bucket_attention_serves({.window = 8}));
  EXPECT_FALSE(bucket_attention_serves({.softcap = 50}));
  EXPECT_FALSE(bucket_attention_serves({.sinks = &sink}));
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
