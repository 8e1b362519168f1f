#include "kv/select/predictor.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "kv/testing/rows.h"

namespace kvick::kv {
namespace {

std::vector<float> random_floats(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> made(n);
  for (float& x : made) x = normal(random);
  return made;
}

Predictor random_predictor(PredictorForm form) {
  Predictor predictor;
  predictor.shape = {.layers = 2,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 8,
                     .dim = 20,
                     .rank = 3,
                     .form = form,
                     .seed = 5};
  const PredictorShape& shape = predictor.shape;
  if (form == PredictorForm::kRandom) predictor.projection = {shape.dim, shape.projected(), 5};
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    predictor.layers.push_back(
        {.q = random_floats(size_t{shape.heads} * shape.rank * shape.inputs(), layer),
         .k = random_floats(size_t{shape.kv_heads} * shape.rank * shape.inputs(), 9 + layer)});
  return predictor;
}

TEST(SparseProjection, HasTheEntriesThatTheDefinitionSaysAsOftenAsItSays) {
  constexpr uint32_t kDim = 600, kColumns = 48;
  const SparseProjection projection(kDim, kColumns, 1);
  const float size = std::sqrt(3.0F / kColumns);
  uint32_t plus = 0, minus = 0;
  for (uint32_t row = 0; row < kDim; ++row)
    for (uint32_t column = 0; column < kColumns; ++column) {
      const float entry = projection.at(row, column);
      ASSERT_TRUE(entry == size || entry == -size || entry == 0) << entry;
      plus += entry > 0;
      minus += entry < 0;
    }
  // Expected: a sixth of 28,800 entries each, 4,800, with a standard deviation of 63.
  EXPECT_NEAR(plus, kDim * kColumns / 6, 320);
  EXPECT_NEAR(minus, kDim * kColumns / 6, 320);
}

TEST(SparseProjection, IsMadeFromItsSeedAlone) {
  const SparseProjection one(64, 8, 3), same(64, 8, 3), other(64, 8, 4);
  uint32_t differ = 0;
  for (uint32_t row = 0; row < 64; ++row)
    for (uint32_t column = 0; column < 8; ++column) {
      EXPECT_EQ(one.at(row, column), same.at(row, column));
      differ += one.at(row, column) != other.at(row, column);
    }
  EXPECT_GT(differ, 0u);
  // Files store only the seed, so these entries must never change.
  const float size = std::sqrt(3.0F / 8);
  std::string signs;
  for (uint32_t row = 0; row < 24; ++row)
    signs += one.at(row, 0) == size ? '+' : one.at(row, 0) == -size ? '-' : '0';
  EXPECT_EQ(signs, "0---000+0-++++00-0000000");
}

TEST(SparseProjection, AppliesAsTheMatrixThatItIs) {
  const SparseProjection projection(50, 7, 2);
  const auto x = random_floats(50, 1);
  std::vector<float> out(7);
  projection.apply(x.data(), out.data());
  for (uint32_t column = 0; column < 7; ++column) {
    double sum = 0;
    for (uint32_t row = 0; row < 50; ++row) sum += double{x[row]} * projection.at(row, column);
    EXPECT_NEAR(out[column], sum, 1e-5);
  }
}

// Equation 1 by its definition.
double naive(std::span<const float> from, const std::vector<float>& w, size_t row) {
  double sum = 0;
  for (size_t i = 0; i < from.size(); ++i) sum += double{from[i]} * w[row * from.size() + i];
  return sum;
}

TEST(Predictor, MakesLowRankKeysAndQueriesByEquationOne) {
  const kernels::Table& kernels = test::tried_kernels();
  for (const PredictorForm form :
       {PredictorForm::kRandom, PredictorForm::kTrained, PredictorForm::kHeads}) {
    const Predictor predictor = random_predictor(form);
    const PredictorShape& shape = predictor.shape;
    const auto x = random_floats(shape.dim, 30);
    const auto q = random_floats(size_t{shape.heads} * shape.head_dim, 31);
    const auto k = random_floats(size_t{shape.kv_heads} * shape.head_dim, 32);
    std::vector<float> projected(shape.projected());
    const float* z = shape.from_input() ? predictor.projected(x.data(), projected.data()) : nullptr;
    const uint32_t n = shape.inputs(), rank = shape.rank;
    std::vector<float> keys(size_t{shape.kv_heads} * rank), query(rank);
    predictor.keys(1, z != nullptr ? z : k.data(), kernels, keys.data());
    for (uint32_t i = 0; i < keys.size(); ++i) {
      const float* from = z != nullptr ? z : k.data() + size_t{i / rank} * n;
      EXPECT_NEAR(keys[i], naive({from, n}, predictor.layers[1].k, i), 1e-5);
    }
    for (uint32_t head = 0; head < shape.heads; ++head) {
      const float* from = z != nullptr ? z : q.data() + size_t{head} * n;
      predictor.query(1, head, from, kernels, query.data());
      for (uint32_t r = 0; r < rank; ++r)
        EXPECT_NEAR(query[r], naive({from, n}, predictor.layers[1].q, size_t{head} * rank + r),
                    1e-5);
    }
  }
}

// Products of rotated queries and keys depend only on the distance between the tokens.
TEST(Predictor, TurnsPairsOfValuesByTheirFrequencyAndThePosition) {
  const kernels::Table& kernels = test::tried_kernels();
  Predictor predictor = random_predictor(PredictorForm::kTrained);
  predictor.shape.rank = 4;
  predictor.frequency = {0.3F, 0.02F};
  const auto before = random_floats(8, 40);  // two heads
  const auto at = [&](uint32_t position) {
    std::vector<float> low = before, turn(4);
    predictor.turns(position, turn.data());
    predictor.turn(turn.data(), 2, kernels, low.data());
    return low;
  };
  EXPECT_EQ(at(0), before);
  const std::vector<float> far = at(1000);
  for (const size_t head : {0, 1})
    for (const size_t i : {0, 1}) {
      const double angle = double{predictor.frequency[i]} * 1000;
      const double a = before[head * 4 + i], b = before[head * 4 + 2 + i];
      EXPECT_NEAR(far[head * 4 + i], a * std::cos(angle) - b * std::sin(angle), 1e-5);
      EXPECT_NEAR(far[head * 4 + 2 + i], a * std::sin(angle) + b * std::cos(angle), 1e-5);
    }
  const auto product = [&](uint32_t q, uint32_t k) {
    return kernels.dot(at(q).data(), at(k).data() + 4, 4);
  };
  EXPECT_NEAR(product(1007, 1000), product(7, 0), 1e-4);
  EXPECT_GT(std::abs(product(9, 0) - product(7, 0)), 1e-3);
}

}  // namespace
}  // namespace kvick::kv
