#include "engine/answer/pool.h"

#include <cmath>
#include <gtest/gtest.h>

namespace kvick::engine {
namespace {

// States of a text of `tokens` tokens, four floats each.
std::vector<std::vector<float>> states_of(uint32_t tokens) {
  std::vector<std::vector<float>> states(tokens);
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t i = 0; i < 4; ++i)
      states[t].push_back(std::sin(static_cast<float>(1 + 4 * t + i)) * 3);
  return states;
}

std::vector<float> pooled(Pooling kind, const std::vector<std::vector<float>>& states) {
  Pool pool(kind, static_cast<uint32_t>(states.size()), 4);
  while (!pool.complete()) pool.add(states[pool.next()]);
  return pool.vector();
}

TEST(Pool, TakesTheLastStateOrTheFirst) {
  const auto states = states_of(5);
  EXPECT_EQ(pooled(Pooling::kLast, states), states[4]);
  EXPECT_EQ(pooled(Pooling::kCls, states), states[0]);
  EXPECT_EQ(pooled(Pooling::kLast, states_of(1)), pooled(Pooling::kCls, states_of(1)));
}

TEST(Pool, TakesTheMeanOfAllStates) {
  const auto states = states_of(7);
  const std::vector<float> mean = pooled(Pooling::kMean, states);
  for (uint32_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (const auto& state : states) sum += state[i];
    EXPECT_FLOAT_EQ(mean[i], static_cast<float>(sum / 7));
  }
}

TEST(Pool, SaysWhichStatesItNeeds) {
  EXPECT_EQ(Pool(Pooling::kLast, 9, 4).next(), 8u);
  EXPECT_EQ(Pool(Pooling::kMean, 9, 4).next(), 0u);
  EXPECT_EQ(Pool(Pooling::kMean, 9, 4).end(), 9u);
  EXPECT_EQ(Pool(Pooling::kCls, 9, 4).end(), 1u);
}

TEST(Pool, RefusesAStateMoreThanThereAreAndAVectorOfFewer) {
  Pool pool(Pooling::kLast, 2, 4);
  EXPECT_THROW(pool.vector(), base::Bug);
  pool.add(states_of(1)[0]);
  EXPECT_THROW(pool.add(states_of(1)[0]), base::Bug);
  EXPECT_THROW(Pool(Pooling::kRank, 2, 4), base::Bug);
}

TEST(Embedding, HasTheLengthOneOnceItIsShortened) {
  std::vector<float> vector = {3, 4, 12};
  give_form({.dimensions = 2}, vector);
  EXPECT_EQ(vector, (std::vector<float>{0.6F, 0.8F}));
  give_form({.dimensions = 9, .normalised = false}, vector);
  EXPECT_EQ(vector, (std::vector<float>{0.6F, 0.8F}));
}

TEST(Embedding, StaysZeroWhereItIs) {
  std::vector<float> nothing(3);
  give_form({}, nothing);
  EXPECT_EQ(nothing, std::vector<float>(3));
  EXPECT_EQ(cosine(nothing, std::vector<float>{1, 2, 3}), 0);
}

TEST(Embedding, IsComparedByTheAngle) {
  const std::vector<float> a = {1, 0}, b = {0, 5}, c = {-2, 0};
  EXPECT_EQ(cosine(a, b), 0);
  EXPECT_EQ(cosine(a, c), -1);
  EXPECT_EQ(cosine(b, b), 1);
}

TEST(Embedding, IsPooledAsTheOptionSaysElseAsTheFileDoesElseByTheLastToken) {
  model::Config config;
  EXPECT_EQ(pooling_of(config, {}), Pooling::kLast);
  config.pooling = Pooling::kMean;
  EXPECT_EQ(pooling_of(config, {}), Pooling::kMean);
  EXPECT_EQ(pooling_of(config, Pooling::kCls), Pooling::kCls);
}

}  // namespace
}  // namespace kvick::engine
