#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "model/blocks/experts.h"

namespace kvick::model {
namespace {

using Router = ExpertsConfig::Router;

// Lower bound of the sum that weights are divided by: the smallest normal float16.
constexpr float kLeastSum = 6.103515625e-5F;
constexpr float kNever = -std::numeric_limits<float>::infinity();

void softmax(float* x, uint32_t n) {
  const float most = *std::max_element(x, x + n);
  float sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - most);
  for (uint32_t i = 0; i < n; ++i) x[i] /= sum;
}

// Turns logits into the scores by which experts are chosen and weighted.
void to_scores(Router router, float* x, uint32_t n) {
  if (router == Router::kSoftmax) softmax(x, n);
  if (router == Router::kSigmoid)
    for (uint32_t i = 0; i < n; ++i) x[i] = 1 / (1 + std::exp(-x[i]));
}

// Returns the index of the largest value, the first one on a tie.
uint32_t best_of(const float* x, uint32_t n) {
  return static_cast<uint32_t>(std::max_element(x, x + n) - x);
}

// Returns a group's score. DeepSeek-V2 takes its best expert (section 2.2.2); V3, with sigmoids,
// takes the sum of its two best.
float group_score(Router router, const float* x, uint32_t n) {
  if (router == Router::kSoftmax) return *std::max_element(x, x + n);
  float first = kNever, second = kNever;
  for (uint32_t i = 0; i < n; ++i) {
    second = std::max(second, std::min(first, x[i]));
    first = std::max(first, x[i]);
  }
  return n > 1 ? first + second : first;
}

// Sets the scores of all groups but the best to kNever, so that no expert of theirs is chosen.
void drop_groups(const ExpertsConfig& config, float* x) {
  const uint32_t size = config.count / config.groups;
  std::vector<float> scores(config.groups);
  for (uint32_t g = 0; g < config.groups; ++g)
    scores[g] = group_score(config.router, x + g * size, size);
  std::vector<bool> kept(config.groups);
  for (uint32_t i = 0; i < config.groups_used; ++i) {
    const uint32_t best = best_of(scores.data(), config.groups);
    kept[best] = true;
    scores[best] = kNever;
  }
  for (uint32_t g = 0; g < config.groups; ++g)
    if (!kept[g]) std::fill_n(x + g * size, size, kNever);
}

void weigh(const ExpertsConfig& config, Choice* chosen) {
  if (config.router == Router::kSoftmaxOfChosen) {
    float sum = 0;
    const float most = chosen[0].weight;  // the best comes first
    for (uint32_t i = 0; i < config.used; ++i)
      sum += chosen[i].weight = std::exp(chosen[i].weight - most);
    for (uint32_t i = 0; i < config.used; ++i) chosen[i].weight /= sum;
  }
  float factor = config.scale;
  if (config.normalised) {
    float sum = 0;
    for (uint32_t i = 0; i < config.used; ++i) sum += chosen[i].weight;
    factor /= std::max(sum, kLeastSum);
  }
  if (factor != 1)
    for (uint32_t i = 0; i < config.used; ++i) chosen[i].weight *= factor;
}

}  // namespace

void choose_experts(const ExpertsConfig& config, const float* logits, std::span<const float> bias,
                    float* scratch, Choice* out) {
  float* const scores = scratch;
  float* const ranked = scores + config.count;
  std::copy_n(logits, config.count, scores);
  to_scores(config.router, scores, config.count);
  std::copy_n(scores, config.count, ranked);
  for (size_t i = 0; i < bias.size(); ++i) ranked[i] += bias[i];
  if (config.groups > 1) drop_groups(config, ranked);
  for (uint32_t i = 0; i < config.used; ++i) {
    const uint32_t best = best_of(ranked, config.count);
    out[i] = {best, scores[best]};
    ranked[best] = kNever;
  }
  weigh(config, out);
}

ExpertPairs expert_pairs(std::span<const TokenRun> runs, const ExpertsConfig& config,
                         std::span<const Choice> chosen) {
  // Ordered by expert; for one expert, pairs of answers come before pairs of prompts.
  std::vector<uint32_t> counts(2 * size_t{config.count});
  const auto each = [&](auto&& body) {
    for (const TokenRun& run : runs)
      for (uint32_t t = run.first; t < run.first + run.tokens; ++t)
        for (uint32_t i = 0; i < config.used; ++i) {
          const uint32_t at = t * config.used + i;
          body(t, at, 2 * chosen[at].expert + (run.prompt ? 1 : 0));
        }
  };
  each([&](uint32_t, uint32_t, uint32_t kind) { ++counts[kind]; });
  ExpertPairs pairs;
  uint32_t first = 0;
  for (uint32_t kind = 0; kind < counts.size(); ++kind) {
    const uint32_t tokens = counts[kind];
    counts[kind] = first;
    if (tokens == 0) continue;
    pairs.runs.push_back({.first = first, .tokens = tokens, .prompt = kind % 2 == 1});
    pairs.experts.push_back(kind / 2);
    first += tokens;
  }
  pairs.token.resize(chosen.size());
  pairs.weight.resize(chosen.size());
  pairs.of.resize(chosen.size());
  each([&](uint32_t t, uint32_t at, uint32_t kind) {
    const uint32_t pair = counts[kind]++;
    pairs.token[pair] = t;
    pairs.weight[pair] = chosen[at].weight;
    pairs.of[at] = pair;
  });
  return pairs;
}

}  // namespace kvick::model
