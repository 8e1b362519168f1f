#include "distil/head_fit.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace kvick::distil {
namespace {

const kernels::Table& kernels_here() { return kernels::table(base::best_isa()); }

std::vector<float> random_floats(size_t n, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> made(n);
  for (float& x : made) x = normal(random);
  return made;
}

// A window of random queries and keys, which are also the inputs of the predictions.
struct Example {
  static constexpr uint32_t kTokens = 19, kGroup = 2, kDim = 5;
  std::vector<float> q = random_floats(size_t{kTokens} * kGroup * kDim, 1, 2);
  std::vector<float> k = random_floats(size_t{kTokens} * kDim, 2, 2);
  std::vector<float> columns = std::vector<float>(k.size());
  HeadWindow window = {.tokens = kTokens,
                       .group = kGroup,
                       .head_dim = kDim,
                       .inputs = kDim,
                       .q = q.data(),
                       .q_stride = kGroup * kDim,
                       .columns = columns.data(),
                       .a = q.data(),
                       .a_stride = kGroup * kDim,
                       .a_group = kDim,
                       .b = k.data(),
                       .b_stride = kDim};
  Example() {
    for (uint32_t j = 0; j < kTokens; ++j)
      for (uint32_t d = 0; d < kDim; ++d) columns[d * kTokens + j] = k[j * kDim + d];
  }
};

double product(const float* x, const float* y, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += double{x[i]} * y[i];
  return sum;
}

// The definitions of the losses, for the row of one query.
double naive_row(std::vector<double> guess, std::vector<double> truth, Loss loss) {
  const auto n = static_cast<double>(guess.size());
  if (loss == Loss::kDivergence) {
    double guess_sum = 0, truth_sum = 0, divergence = 0;
    for (size_t j = 0; j < guess.size(); ++j)
      guess_sum += std::exp(guess[j]), truth_sum += std::exp(truth[j]);
    for (size_t j = 0; j < guess.size(); ++j)
      divergence += std::exp(truth[j]) / truth_sum *
                    (truth[j] - std::log(truth_sum) - guess[j] + std::log(guess_sum));
    return divergence;
  }
  double mean = 0, squares = 0;
  for (size_t j = 0; j < guess.size(); ++j) mean += (guess[j] - truth[j]) / n;
  if (loss == Loss::kRaw) mean = 0;
  for (size_t j = 0; j < guess.size(); ++j) squares += std::pow(guess[j] - truth[j] - mean, 2) / n;
  return squares;
}

// The definition of rotary position: rotates values i and i + rank / 2 by the window's angles.
std::vector<double> turned(std::vector<double> low, const HeadWindow& w, uint32_t token) {
  if (w.turns == nullptr) return low;
  const size_t rank = low.size(), pairs = rank / 2;
  for (size_t i = 0; i < pairs; ++i) {
    const double c = w.turns[token * rank + i], s = w.turns[token * rank + pairs + i];
    const double a = low[i], b = low[pairs + i];
    low[i] = a * c - b * s;
    low[pairs + i] = a * s + b * c;
  }
  return low;
}

std::vector<double> low_of(const float* matrix, const float* from, uint32_t rank,
                           const HeadWindow& w, uint32_t token) {
  std::vector<double> low(rank);
  for (uint32_t r = 0; r < rank; ++r) low[r] = product(matrix + r * w.inputs, from, w.inputs);
  return turned(low, w, token);
}

double naive_loss(const HeadFit& fit, const HeadWindow& w, std::span<const uint32_t> queries,
                  Loss loss) {
  double total = 0;
  for (const uint32_t i : queries)
    for (uint32_t g = 0; g < w.group; ++g) {
      std::vector<double> guess(i + 1), truth(i + 1);
      for (uint32_t j = 0; j <= i; ++j) {
        const float *b = w.b + j * w.b_stride, *a = w.a + i * w.a_stride + g * w.a_group;
        const uint32_t rank = fit.rank();
        const auto q = low_of(fit.q().data() + g * rank * w.inputs, a, rank, w, i);
        const auto k = low_of(fit.k().data(), b, rank, w, j);
        for (uint32_t r = 0; r < rank; ++r) guess[j] += q[r] * k[r];
        truth[j] = product(w.q + i * w.q_stride + g * w.head_dim, b, w.head_dim) *
                   (w.scale != 0 ? w.scale : 1 / std::sqrt(static_cast<double>(w.head_dim)));
      }
      total += naive_row(guess, truth, loss);
    }
  return total / static_cast<double>(queries.size() * w.group);
}

HeadFit fit_from(std::vector<float> q, std::vector<float> k, uint32_t rank) {
  return HeadFit(rank, std::move(q), std::move(k));
}

// Each loss, without and with positions.
class EachLoss : public testing::TestWithParam<std::tuple<Loss, bool>> {
 protected:
  EachLoss() {
    constexpr uint32_t kPairs = kRank / 2;
    for (uint32_t t = 0; t < Example::kTokens; ++t)
      for (uint32_t i = 0; i < kPairs; ++i) {
        const float angle = static_cast<float>(t) * (i == 0 ? 0.9F : 0.05F);
        turns_[t * kRank + i] = std::cos(angle);
        turns_[t * kRank + kPairs + i] = std::sin(angle);
      }
    if (std::get<bool>(GetParam())) example.window.turns = turns_.data();
  }
  static Loss loss() { return std::get<Loss>(GetParam()); }

  static constexpr uint32_t kRank = 4;
  Example example;
  const std::vector<float> q = random_floats(size_t{2} * kRank * 5, 3),
                           k = random_floats(size_t{kRank} * 5, 4);

 private:
  std::vector<float> turns_ = std::vector<float>(size_t{Example::kTokens} * kRank);
};

TEST_P(EachLoss, IsTheMeanOverTheQueriesAskedFor) {
  const std::vector<uint32_t> queries = {3, 18, 7};
  HeadFit fit = fit_from(q, k, kRank);
  const double naive = naive_loss(fit, example.window, queries, loss());
  EXPECT_NEAR(fit.step(example.window, queries, loss(), 0.1F, kernels_here()), naive, 1e-4 * naive);
}

TEST_P(EachLoss, IsThatOfScoresOfTheWindowsScale) {
  const std::vector<uint32_t> queries = {3, 18, 7};
  example.window.scale = 0.2F;
  HeadFit fit = fit_from(q, k, kRank);
  const double naive = naive_loss(fit, example.window, queries, loss());
  EXPECT_NEAR(fit.step(example.window, queries, loss(), 0.1F, kernels_here()), naive, 1e-4 * naive);
}

// The first step of Adam moves each weight by the rate, against the sign of its gradient.
TEST_P(EachLoss, GoesDownItsGradient) {
  const std::vector<uint32_t> queries = {2, 11, 18};
  HeadFit moved = fit_from(q, k, kRank);
  moved.step(example.window, queries, loss(), 0.001F, kernels_here());
  const auto slope = [&](bool of_k, size_t i) {
    double of_side[2];
    for (const int side : {0, 1}) {
      auto changed_q = q, changed_k = k;
      (of_k ? changed_k : changed_q)[i] += side == 0 ? -1e-2F : 1e-2F;
      of_side[side] =
          naive_loss(fit_from(changed_q, changed_k, kRank), example.window, queries, loss());
    }
    return of_side[1] - of_side[0];
  };
  for (const bool of_k : {false, true}) {
    const auto &before = of_k ? k : q, &after = of_k ? moved.k() : moved.q();
    for (size_t i = 0; i < before.size(); ++i) {
      const double down = slope(of_k, i);
      if (std::abs(down) > 1e-3) {
        EXPECT_NEAR(after[i] - before[i], down > 0 ? -0.001 : 0.001, 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachLoss,
                         testing::Combine(testing::Values(Loss::kRaw, Loss::kCentred,
                                                          Loss::kDivergence),
                                          testing::Bool()));

TEST(HeadFit, LearnsTheScoresThemselvesWhereItsRankAllowsIt) {
  const Example example;
  std::vector<uint32_t> queries(Example::kTokens);
  for (uint32_t i = 0; i < queries.size(); ++i) queries[i] = i;
  HeadFit fit =
      fit_from(random_floats(size_t{2} * 5 * 5, 5, 0.3F), random_floats(size_t{5} * 5, 6, 0.3F), 5);
  const double before = naive_loss(fit, example.window, queries, Loss::kRaw);
  for (const float rate : {0.05F, 0.005F, 0.0005F})
    for (int i = 0; i < 300; ++i)
      fit.step(example.window, queries, Loss::kRaw, rate, kernels_here());
  EXPECT_LT(naive_loss(fit, example.window, queries, Loss::kRaw), before / 1000);
}

}  // namespace
}  // namespace kvick::distil
