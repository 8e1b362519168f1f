#include "engine/speculation/draft_choice.h"

#include <gtest/gtest.h>
#include <random>

namespace kvick::engine {
namespace {

// Sequoia's dynamic programme: the most expected tokens of `nodes` nodes below an accepted one,
// whose children may have the ranks from `rank` on.
struct Programme {
  std::span<const double> rates;
  double best(uint32_t nodes, uint32_t depth, size_t rank) const {
    if (nodes == 0 || depth == 0 || rank == rates.size()) return 0;
    double most = 0;
    for (uint32_t below = 0; below < nodes; ++below)
      most = std::max(most, rates[rank] * (1 + best(below, depth - 1, 0)) +
                                best(nodes - 1 - below, depth, rank + 1));
    return most;
  }
};

TEST(DraftChoice, FindsTheTreeOfSequoiasProgramme) {
  const std::vector<std::vector<double>> vectors = {
      {0.9}, {0.6, 0.2, 0.1}, {0.5, 0.5}, {0.3, 0.29, 0.28, 0.01}, {0.99, 0.9}};
  for (const auto& rates : vectors)
    for (const uint32_t depth : {1u, 2u, 4u, 9u})
      for (uint32_t nodes = 1; nodes < 9; ++nodes) {
        const DraftTree tree = best_shape(rates, nodes, depth, kModelKinds);
        std::vector<double> chances;
        double tokens = 0;
        for (const DraftTree::Node& node : tree.nodes) {
          const double parent = node.parent < 0 ? 1 : chances[static_cast<size_t>(node.parent)];
          chances.push_back(parent * rates[static_cast<size_t>(node.kind - kModelKinds)]);
          tokens += chances.back();
          EXPECT_LE(node.depth, depth);
        }
        EXPECT_LE(tree.nodes.size(), nodes);
        EXPECT_NEAR(tokens, Programme{rates}.best(nodes, depth, 0), 1e-12);
      }
}

StepCost linear(double first, double each) {
  StepCost cost;
  for (uint32_t rows = 1; rows <= StepCost::kMostRows; ++rows)
    for (uint32_t i = 0; i < StepCost::kFew; ++i) cost.observe({rows}, first + each * (rows - 1));
  return cost;
}

constexpr double kAny = 1e9;  // tokens that draft tokens may lose

PlainStep plain_of(uint32_t lanes) { return {.tokens = lanes, .shape = {.rows = lanes}}; }

TEST(DraftChoice, TakesTheDraftsThatGiveTheMostTokensASecond) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int round = 0; round < 200; ++round) {
    const StepCost cost = linear(1, uniform(random));
    std::vector<double> chances(1 + random() % 20);
    for (double& chance : chances) chance = uniform(random);
    const uint32_t lanes = 1 + random() % 8;
    const double least = least_chance(chances, plain_of(lanes), cost, kAny);
    const auto rate = [&](double threshold) {
      double tokens = lanes;
      uint32_t rows = lanes;
      for (const double chance : chances)
        if (chance >= threshold) tokens += chance, ++rows;
      return tokens / cost.seconds({rows});
    };
    for (const double threshold : chances)
      EXPECT_LE(rate(threshold), std::max(rate(least), 1.05 * rate(2)) * (1 + 1e-9));
  }
}

TEST(DraftChoice, TakesNoneWhereRowsAreDearOrDraftsPoor) {
  const std::vector<double> good = {0.9, 0.8}, poor = {0.02, 0.01};
  EXPECT_GT(least_chance(good, plain_of(1), linear(1, 1), kAny), 1);
  EXPECT_GT(least_chance(poor, plain_of(1), linear(1, 0.1), kAny), 1);
  EXPECT_LE(least_chance(good, plain_of(1), linear(1, 0.1), kAny), 0.8);
  EXPECT_GT(least_chance({}, plain_of(1), linear(1, 0.1), kAny), 1);
}

TEST(DraftChoice, BetsNoMoreThanMayBeLost) {
  const std::vector<double> chances = {0.95, 0.9, 0.85, 0.8};
  // A draft token costs a tenth of a step, which gives two tokens.
  const StepCost cost = linear(1, 1.0 / 9);
  EXPECT_EQ(least_chance(chances, plain_of(2), cost, kAny), 0.8);
  EXPECT_EQ(least_chance(chances, plain_of(2), cost, 0.61), 0.85);
  EXPECT_EQ(least_chance(chances, plain_of(2), cost, 0.21), 0.95);
  EXPECT_GT(least_chance(chances, plain_of(2), cost, 0.19), 1);
  EXPECT_FALSE(may_draft(plain_of(2), cost, 0.19));
  EXPECT_TRUE(may_draft(plain_of(2), cost, 0.21));
  EXPECT_TRUE(may_draft(plain_of(2), StepCost(), 0)) << "nothing is known of costs";
}

// For trees that take time to compute: finds the best size by trying all.
TEST(DraftChoice, ComputesATreeOnlyWhereThatGivesMoreThanWithoutIt) {
  const std::vector<double> rates = {0.8, 0.1};
  const StepCost cost = linear(1, 0.1);
  const auto size_of = [&](double level_seconds, std::span<const double> chances, uint32_t lanes) {
    LevelCost level;
    level.observe(1, level_seconds);
    return worth(rates, {.nodes = 8, .depth = 8}, {plain_of(lanes), cost, level}, chances);
  };
  EXPECT_GE(size_of(0.001, {}, 1).depth, 5u) << "another level for next to nothing";
  const TreeSize some = size_of(0.3, {}, 1);
  EXPECT_GT(some.depth, 0u);
  EXPECT_LT(some.depth, 5u);
  EXPECT_GE(some.nodes, some.depth);
  EXPECT_EQ(size_of(1.0, {}, 1).nodes, 0u);
  // If other drafters have good draft tokens already, none are computed.
  const std::vector<double> sure(6, 0.95);
  EXPECT_EQ(size_of(0.3, sure, 1).nodes, 0u);
  // In a step of many sequences each one's share is small, so there is less to gain.
  EXPECT_EQ(size_of(0.3, {}, 16).nodes, 0u);
  const TreeSize unknown = worth(rates, {8, 3}, {plain_of(1), StepCost(), LevelCost()}, {});
  EXPECT_EQ(unknown.nodes, 8u);
  EXPECT_EQ(unknown.depth, 3u);
}

TEST(DraftTree, AddsAnotherTreesNodesThatItHasNot) {
  DraftTree tree, other;
  tree.add(tree.add(-1, 5, 0), 6, 0);
  other.add(other.add(-1, 5, 9), 7, 9);
  other.add(1, 8, 9);
  tree.add_all(other);
  ASSERT_EQ(tree.nodes.size(), 4u);
  EXPECT_EQ(tree.nodes[0].kind, 0u);
  EXPECT_EQ(tree.child(0, 7), 2);
  EXPECT_EQ(tree.child(2, 8), 3);
}

TEST(DraftTree, KeepsNodesWithTheirParents) {
  DraftTree tree;
  EXPECT_EQ(tree.add(-1, 5, 0), 0);
  EXPECT_EQ(tree.add(0, 6, 0), 1);
  EXPECT_EQ(tree.add(-1, 7, 0), 2);
  EXPECT_EQ(tree.add(2, 6, 0), 3);
  EXPECT_EQ(tree.add(0, 6, 9), 1) << "the same again";
  tree.keep({false, false, true, true});
  ASSERT_EQ(tree.nodes.size(), 2u);
  EXPECT_EQ(tree.nodes[1].parent, 0);
  EXPECT_EQ(tree.child(-1, 7), 0);
  EXPECT_EQ(tree.child(0, 6), 1);
  EXPECT_EQ(tree.child(0, 5), -1);
}

TEST(Acceptance, ComesFromWhatWasSeenLately) {
  Acceptance all;
  for (int i = 0; i < 1000; ++i) all.observe(3, i % 4 == 0);
  EXPECT_NEAR(all.rate(3), 0.25, 0.05);
  Acceptance mine(all, 6);
  EXPECT_DOUBLE_EQ(mine.rate(3), all.rate(3));
  for (int i = 0; i < 50; ++i) mine.observe(3, true);
  EXPECT_GT(mine.rate(3), 0.85);
  // Later measurements of other sequences count too.
  const Acceptance young(all, 6);
  for (int i = 0; i < 1000; ++i) all.observe(3, true);
  EXPECT_GT(young.rate(3), 0.95);
}

}  // namespace
}  // namespace kvick::engine
