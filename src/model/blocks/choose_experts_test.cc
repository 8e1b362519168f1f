#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "model/blocks/experts.h"

namespace kvick::model {
namespace {

using Router = ExpertsConfig::Router;

struct Chosen {
  std::vector<uint32_t> experts;
  std::vector<float> weights;
};

Chosen choose(ExpertsConfig config, const std::vector<float>& logits,
              const std::vector<float>& bias = {}) {
  config.count = static_cast<uint32_t>(logits.size());
  std::vector<float> scratch(2 * logits.size());
  std::vector<Choice> out(config.used);
  choose_experts(config, logits.data(), bias, scratch.data(), out.data());
  Chosen chosen;
  for (const Choice& choice : out) {
    chosen.experts.push_back(choice.expert);
    chosen.weights.push_back(choice.weight);
  }
  return chosen;
}

const std::vector<float> kLogits = {0, 2, -1, 1};

TEST(ChooseExperts, WeighsBySoftmaxOverAllExperts) {
  const double sum = 1 + std::exp(2) + std::exp(-1) + std::exp(1);
  const Chosen plain = choose({.used = 2}, kLogits);
  EXPECT_EQ(plain.experts, (std::vector<uint32_t>{1, 3}));
  EXPECT_NEAR(plain.weights[0], std::exp(2) / sum, 1e-6);
  EXPECT_NEAR(plain.weights[1], std::exp(1) / sum, 1e-6);
  const Chosen normalised = choose({.used = 2, .normalised = true, .scale = 3}, kLogits);
  EXPECT_NEAR(normalised.weights[0], 3 / (1 + std::exp(-1)), 1e-5);
  EXPECT_NEAR(normalised.weights[0] + normalised.weights[1], 3, 1e-5);
}

TEST(ChooseExperts, WeighsBySigmoidOrByTheChosenAlone) {
  const Chosen sigmoid = choose({.used = 3, .router = Router::kSigmoid}, kLogits);
  EXPECT_EQ(sigmoid.experts, (std::vector<uint32_t>{1, 3, 0}));
  EXPECT_NEAR(sigmoid.weights[2], 0.5, 1e-6);
  const Chosen alone = choose({.used = 2, .router = Router::kSoftmaxOfChosen}, kLogits);
  EXPECT_NEAR(alone.weights[0], 1 / (1 + std::exp(-1)), 1e-6);
  EXPECT_NEAR(alone.weights[1], 1 / (1 + std::exp(1)), 1e-6);
}

TEST(ChooseExperts, AddsABiasForChoosingAndNotForWeighing) {
  const Chosen chosen = choose({.used = 1, .router = Router::kSigmoid}, kLogits, {0, 0, 1, 0});
  EXPECT_EQ(chosen.experts[0], 2u);
  EXPECT_NEAR(chosen.weights[0], 1 / (1 + std::exp(1)), 1e-6);
}

TEST(ChooseExperts, ChoosesFromTheBestGroups) {
  // The best expert is in the second group; the best pair of experts is in the first.
  const Chosen chosen =
      choose({.used = 2, .groups = 2, .groups_used = 1, .router = Router::kSigmoid}, {1, 1, 2, -9});
  EXPECT_EQ(chosen.experts, (std::vector<uint32_t>{0, 1}));
}

// DeepSeek-V2 scores a group by its best expert, V3 by its two best.
TEST(ChooseExperts, TakesTheGroupOfTheBestExpertWhereTheRouterIsASoftmax) {
  const Chosen chosen = choose({.used = 2, .groups = 2, .groups_used = 1}, {1, 1, 2, -9});
  EXPECT_EQ(chosen.experts, (std::vector<uint32_t>{2, 3}));
}

TEST(ChooseExperts, TakesTheFirstOfEqualOnes) {
  EXPECT_EQ(choose({.used = 3}, {1, 1, 1, 1}).experts, (std::vector<uint32_t>{0, 1, 2}));
}

TEST(ChooseExperts, NamesExpertsThatThereAreEvenIfLogitsAreNotNumbers) {
  for (const uint32_t expert : choose({.used = 3}, std::vector<float>(5, NAN)).experts)
    EXPECT_LT(expert, 5u);
}

TEST(ExpertsConfig, SaysWhichShareABatchReads) {
  const ExpertsConfig experts = {.count = 8, .used = 2};
  EXPECT_DOUBLE_EQ(experts.share_read(1), 0.25);
  EXPECT_DOUBLE_EQ(experts.share_read(2), 1 - 0.75 * 0.75);
  EXPECT_NEAR(experts.share_read(100), 1, 1e-9);
  EXPECT_EQ(ExpertsConfig{}.share_read(1), 0);
}

}  // namespace
}  // namespace kvick::model
