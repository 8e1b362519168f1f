// Typical-p, top-n-sigma, XTC, the dynamic temperature and Mirostat, against their definitions.

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>

#include "engine/sampling/sampler.h"

namespace kvick::engine {
namespace {

using Order = std::vector<size_t>;

double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// Returns the indices by descending value; of equal values the first index comes first.
template <class Value>
Order order_by(size_t n, Value value) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return value(a) > value(b); });
  return order;
}

double sum_of(const std::vector<float>& weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

// Keeps the first weights of the order until they have the share, and zeroes the others.
void keep_share(std::vector<float>& weights, const Order& order, double share) {
  const double goal = share * sum_of(weights);
  double kept = 0;
  for (const size_t i : order) {
    if (kept >= goal) weights[i] = 0;
    kept += weights[i];
  }
}

void naive_sigma(std::vector<float>& logits, double n) {
  std::vector<double> possible;
  for (const float logit : logits)
    if (std::isfinite(logit)) possible.push_back(logit);
  const auto count = static_cast<double>(possible.size());
  const double mean = std::accumulate(possible.begin(), possible.end(), 0.0) / count;
  double variance = 0;
  for (const double logit : possible) variance += (logit - mean) * (logit - mean) / count;
  const double least =
      *std::max_element(possible.begin(), possible.end()) - n * std::sqrt(variance);
  for (float& logit : logits)
    if (logit < static_cast<float>(least)) logit = -INFINITY;
}

double naive_temperature(const Sampling& s, const std::vector<float>& logits) {
  if (s.dynatemp_range == 0 || logits.size() < 2) return s.temperature;
  const double highest = *std::max_element(logits.begin(), logits.end());
  double total = 0, entropy = 0;
  for (const float logit : logits) total += std::exp(logit - highest);
  for (const float logit : logits) {
    const double p = std::exp(logit - highest) / total;
    if (p > 0) entropy -= p * std::log(p);
  }
  const double share = entropy / std::log(static_cast<double>(logits.size()));
  const double least = std::max(0.0, double{s.temperature} - double{s.dynatemp_range});
  const double most = double{s.temperature} + double{s.dynatemp_range};
  return least + (most - least) * std::pow(share, s.dynatemp_exponent);
}

void naive_typical(std::vector<float>& weights, const std::vector<float>& logits, double share) {
  const double total = sum_of(weights);
  const float highest = *std::max_element(logits.begin(), logits.end());
  const auto surprise = [&](size_t i) { return std::log(total) - double{logits[i] - highest}; };
  double expected = 0;
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0) expected += weights[i] / total * surprise(i);
  keep_share(weights,
             order_by(weights.size(),
                      [&](size_t i) {
                        return weights[i] > 0 ? -std::abs(surprise(i) - expected) : -INFINITY;
                      }),
             share);
}

void naive_xtc(std::vector<float>& weights, double threshold) {
  const double total = sum_of(weights);
  const Order order = order_by(weights.size(), [&](size_t i) { return weights[i]; });
  for (size_t k = 0; k + 1 < order.size(); ++k) {
    const double next = weights[order[k + 1]];
    if (next > 0 && next >= threshold * total) weights[order[k]] = 0;
  }
}

// All filters of sampling.h. Apart from the dynamic one the temperature is 1, so that a logit is
// minus the surprise, apart from a constant.
Token naive_choice(const Sampling& s, std::vector<float> logits, std::mt19937_64& random) {
  if (s.top_n_sigma > 0) naive_sigma(logits, s.top_n_sigma);
  Order kept = order_by(logits.size(), [&](size_t i) { return logits[i]; });
  if (s.top_k > 0) kept.resize(std::min<size_t>(kept.size(), s.top_k));
  std::sort(kept.begin(), kept.end());
  std::vector<float> left;
  for (const size_t i : kept) left.push_back(logits[i]);
  const float highest = *std::max_element(left.begin(), left.end());
  const auto scale = static_cast<float>(
      std::min(1 / naive_temperature(s, left), double{std::numeric_limits<float>::max()}));
  std::vector<float> weights = left;
  std::vector<double> sums(left.size());
  kernels::table(base::Isa::kScalar)
      .weigh_tokens(weights.data(), weights.size(), highest, scale, sums.data());
  if (s.typical_p < 1) naive_typical(weights, left, s.typical_p);
  if (s.top_p < 1)
    keep_share(weights, order_by(weights.size(), [&](size_t i) { return weights[i]; }), s.top_p);
  const float least = s.min_p * *std::max_element(weights.begin(), weights.end());
  for (float& weight : weights) weight = weight < least ? 0 : weight;
  if (s.xtc.probability > 0 && uniform(random) < s.xtc.probability)
    naive_xtc(weights, s.xtc.threshold);
  const double goal = uniform(random) * sum_of(weights);
  double running = 0;
  for (size_t i = 0; i < weights.size(); ++i)
    if ((running += weights[i]) > goal) return static_cast<Token>(kept[i]);
  return -1;
}

std::vector<float> random_logits(std::mt19937_64& random, size_t vocab) {
  std::normal_distribution<float> normal(0, random() % 2 == 0 ? 1.0F : 4.0F);
  std::vector<float> logits(vocab);
  for (float& logit : logits) logit = random() % 50 == 0 ? -INFINITY : normal(random);
  logits[random() % vocab] = 1;  // at least one is possible
  return logits;
}

TEST(SamplerFilters, ChooseAsTheirDefinitionsUnderEveryInstructionSet) {
  std::mt19937_64 random(5);
  const auto one_of = [&](std::initializer_list<float> values) {
    return values.begin()[random() % values.size()];
  };
  for (int round = 0; round < 600; ++round) {
    Sampling s;
    s.temperature = 1;
    s.top_k = static_cast<uint32_t>(one_of({0, 0, 1, 5, 40}));
    s.top_p = one_of({1, 1, 0.9F});
    s.min_p = one_of({0, 0, 0.1F, 1});
    s.typical_p = one_of({1, 0.9F, 0.5F, 0.05F});
    s.top_n_sigma = one_of({0, 0, 0.5F, 1.5F});
    s.xtc = {.probability = one_of({0, 0.5F, 1}), .threshold = one_of({0, 0.01F, 0.1F, 0.4F})};
    if (s.typical_p == 1) s.dynatemp_range = one_of({0, 0.5F, 1});
    s.dynatemp_exponent = one_of({1, 0.5F, 2});
    s.seed = random();
    const size_t vocab = std::initializer_list<size_t>{1, 2, 65, 700}.begin()[random() % 4];
    const std::vector<float> logits = random_logits(random, vocab);
    std::mt19937_64 same(s.seed);
    const Token expected = naive_choice(s, logits, same);
    for (const base::Isa isa : base::kIsas) {
      if (!base::isa_supported(isa)) continue;
      std::vector<float> copy = logits;
      ASSERT_EQ(Sampler(s, kernels::table(isa)).choose(copy), expected)
          << round << ": " << vocab << " tokens, top-k " << s.top_k << ", top-p " << s.top_p
          << ", min-p " << s.min_p << ", typical-p " << s.typical_p << ", top-n-sigma "
          << s.top_n_sigma << ", XTC " << s.xtc.probability << " " << s.xtc.threshold << ", range "
          << s.dynatemp_range;
    }
  }
}

TEST(SamplerFilters, XtcLeavesTheUnlikeliestOfTheLikelyOnes) {
  Sampling s;
  s.temperature = 1;
  s.top_k = 0;
  s.top_p = 1;
  s.xtc = {.probability = 1, .threshold = 0.2F};
  Sampler sampler(s, kernels::table(base::best_isa()));
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits = {std::log(0.4F), std::log(0.3F), std::log(0.25F), std::log(0.05F)};
    EXPECT_GE(sampler.choose(logits), 2);
  }
}

// Algorithms 1 and 2 of the paper, computed in doubles.
struct NaiveMirostat {
  MirostatSampling settings;
  double mu;
  std::mt19937_64 random;

  size_t kept_by_first(const std::vector<double>& p, const Order& order) const {
    double products = 0, squares = 0;
    for (size_t i = 0; i + 1 < std::min<size_t>(order.size(), 100) && p[order[i + 1]] > 0; ++i) {
      const double t = std::log(double(i + 2) / double(i + 1));
      products += t * std::log(p[order[i]] / p[order[i + 1]]);
      squares += t * t;
    }
    const double s = products / squares, epsilon = s - 1;
    const double n = static_cast<double>(p.size());
    const double k = std::pow(epsilon * std::exp2(mu) / (1 - std::pow(n, -epsilon)), 1 / s);
    return k > 1 ? static_cast<size_t>(std::min(k, n)) : 1;
  }
  Token choose(const std::vector<float>& logits) {
    std::vector<double> p;
    for (const float logit : logits) p.push_back(std::exp(double{logit}));
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& one : p) one /= total;
    const Order order = order_by(p.size(), [&](size_t i) { return p[i]; });
    const size_t kept = settings.version == 1 ? kept_by_first(p, order) : p.size();
    for (size_t k = 1; k < order.size(); ++k)
      if (settings.version == 1 ? k >= kept : -std::log2(p[order[k]]) > mu) p[order[k]] = 0;
    const double left = std::accumulate(p.begin(), p.end(), 0.0);
    const double goal = uniform(random) * left;
    size_t chosen = 0;
    for (double running = p[0]; running <= goal;) running += p[++chosen];
    mu -= settings.eta * (-std::log2(p[chosen] / left) - settings.tau);
    return static_cast<Token>(chosen);
  }
};

TEST(SamplerFilters, MirostatChoosesAsItsDefinitionWhileItsStateMoves) {
  std::mt19937_64 random(9);
  for (const uint32_t version : {1U, 2U})
    for (const float tau : {1.0F, 3.0F, 6.0F}) {
      Sampling s;
      s.temperature = 1;
      s.seed = random();
      s.mirostat = {.version = version, .tau = tau, .eta = 0.2F};
      Sampler sampler(s, kernels::table(base::best_isa()));
      NaiveMirostat naive{s.mirostat, 2.0 * tau, std::mt19937_64(s.seed)};
      size_t different = 0;
      for (int i = 0; i < 200; ++i) {
        std::vector<float> logits(300);
        std::normal_distribution<float> normal(0, 3);
        for (float& logit : logits) logit = normal(random);
        const Token expected = naive.choose(logits);
        ASSERT_EQ(sampler.choose(logits), expected) << version << " " << tau << " " << i;
        different += expected != 0;
      }
      EXPECT_GT(different, 0u);
    }
}

// Preempted sequences, drafters and verification rely on this.
TEST(SamplerFilters, ACopyGoesOnAsTheOriginal) {
  std::mt19937_64 random(4);
  for (const uint32_t version : {0U, 1U, 2U}) {
    Sampling s;
    s.temperature = 1;
    s.mirostat = {.version = version, .tau = 2};
    s.xtc.probability = 0.5F;
    s.dry.multiplier = 1;
    s.bad_words = {{1, 2}, {3}};
    Sampler sampler(s, kernels::table(base::best_isa()));
    for (int i = 0; i < 20; ++i) {
      std::vector<float> logits = random_logits(random, 100);
      sampler.accept(sampler.choose(logits));
    }
    Sampler copy = sampler;
    for (int i = 0; i < 20; ++i) {
      std::vector<float> logits = random_logits(random, 100), same = logits;
      const Token token = sampler.choose(logits);
      ASSERT_EQ(copy.choose(same), token);
      sampler.accept(token), copy.accept(token);
    }
  }
}

}  // namespace
}  // namespace kvick::engine
