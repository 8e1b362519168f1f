#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/table/table.h"

namespace kvick::engine {
namespace {

const kernels::Table& best() { return kernels::table(base::best_isa()); }

std::vector<float> ramp() { return {0, 1, 2, 3, 4, 5}; }

std::vector<int> draws(Sampling sampling, int count, const std::vector<float>& logits) {
  Sampler sampler(sampling, best());
  std::vector<int> seen(logits.size(), 0);
  for (int i = 0; i < count; ++i) {
    std::vector<float> copy = logits;
    ++seen[static_cast<size_t>(sampler.choose(copy))];
  }
  return seen;
}

TEST(Sampler, GreedyTakesTheFirstOfTheLikeliest) {
  std::vector<float> logits = {1, 7, 3, 7};
  Sampling greedy;
  greedy.temperature = 0;
  EXPECT_EQ(Sampler(greedy, best()).choose(logits), 1);
}

TEST(Sampler, DrawsWithTheProbabilitiesOfTheSoftmax) {
  Sampling plain;
  plain.temperature = 1;
  plain.top_k = 0;
  plain.top_p = 1;
  const std::vector<float> logits = {0, std::log(3.0F)};
  const int n = 20000;
  const double share = draws(plain, n, logits)[1] / double(n);
  EXPECT_NEAR(share, 0.75, 5 * std::sqrt(0.75 * 0.25 / n));
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  Sampling s;
  s.top_k = 0;
  s.top_p = 1;
  const std::vector<float> logits = {0, 1};
  const int n = 20000;
  s.temperature = 0.5F;
  EXPECT_NEAR(draws(s, n, logits)[1] / double(n), 1 / (1 + std::exp(-2.0)), 0.02);
  s.temperature = 2;
  EXPECT_NEAR(draws(s, n, logits)[1] / double(n), 1 / (1 + std::exp(-0.5)), 0.02);
  s.temperature = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(draws(s, 10, logits)[1], 10);
}

TEST(Sampler, TopKTopPAndMinPLeaveOnlyTheLikeliest) {
  Sampling s;
  s.temperature = 1;
  s.top_p = 1;
  s.top_k = 2;
  auto seen = draws(s, 2000, ramp());
  EXPECT_GT(seen[4], 0);
  EXPECT_EQ(seen[0] + seen[1] + seen[2] + seen[3], 0);
  s.top_k = 0;
  s.top_p = 0.6F;  // the likeliest token alone has 0.63
  EXPECT_EQ(draws(s, 500, ramp())[5], 500);
  s.top_p = 1;
  s.min_p = 0.2F;  // the third token is e^-2 = 0.135 times as likely as the likeliest
  seen = draws(s, 2000, ramp());
  EXPECT_GT(seen[4], 0);
  EXPECT_EQ(seen[3], 0);
}

// Includes vocabularies that end within a block, ties and minus infinity.
TEST(Sampler, TakesTheLikeliestOfAnyNumberOfTokens) {
  std::mt19937 random(3);
  for (const size_t vocab : {1, 15, 64, 65, 300, 1027}) {
    std::vector<float> logits(vocab);
    for (float& logit : logits)
      logit = random() % 9 == 0 ? -INFINITY : static_cast<float>(random() % 50);
    std::vector<float> copy = logits;
    const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    EXPECT_EQ(Sampler({.temperature = 0}, best()).choose(copy), likeliest) << vocab;
    std::vector<float> sorted = logits;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const size_t k = std::min<size_t>(vocab, 7);
    Sampler sampler({.temperature = 50, .top_k = 7, .top_p = 1}, best());
    for (int i = 0; i < 200; ++i) {
      copy = logits;
      const auto token = static_cast<size_t>(sampler.choose(copy));
      ASSERT_GE(logits[token], sorted[k - 1]) << vocab;
      if (logits[token] == sorted[k - 1]) {  // of equal logits the first is chosen
        const auto above =
            std::count_if(logits.begin(), logits.end(), [&](float x) { return x > sorted[k - 1]; });
        const auto equal = std::count(
            logits.begin(), logits.begin() + static_cast<ptrdiff_t>(token), sorted[k - 1]);
        ASSERT_LT(above + equal, static_cast<ptrdiff_t>(k));
      }
    }
  }
}

TEST(Sampler, GivesTheSameTokensForTheSameSeedOnly) {
  const std::vector<float> logits(100, 0.0F);
  const auto sequence = [&](uint64_t seed) {
    Sampling s;
    s.seed = seed;
    s.top_k = 0;
    Sampler sampler(s, best());
    std::vector<Token> tokens;
    for (int i = 0; i < 20; ++i) {
      std::vector<float> copy = logits;
      tokens.push_back(sampler.choose(copy));
    }
    return tokens;
  };
  EXPECT_EQ(sequence(5), sequence(5));
  EXPECT_NE(sequence(5), sequence(6));
  // The standard fixes mt19937_64 and the draw uses no library distribution, so the token is the
  // same on every machine.
  EXPECT_EQ(sequence(0)[0], 15);
}

// The definition in sampler.h, token by token, on a sorted vocabulary.
Token naive_choice(const Sampling& s, std::vector<float> logits, double u) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  std::vector<Token> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> sums(logits.size());
  std::vector<float> weights = logits;
  kernels::table(base::Isa::kScalar)
      .weigh_tokens(weights.data(), weights.size(), highest, 1 / s.temperature, sums.data());
  const auto by = [&](const std::vector<float>& values) {
    std::stable_sort(order.begin(), order.end(), [&](Token a, Token b) {
      return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
    });
  };
  by(logits);
  if (s.top_k > 0) order.resize(std::min<size_t>(order.size(), s.top_k));
  std::sort(order.begin(), order.end());
  by(weights);
  double total = 0, taken = 0;
  for (const Token token : order) total += weights[static_cast<size_t>(token)];
  size_t kept = 0;
  while (kept < order.size() && taken < s.top_p * total)
    taken += weights[static_cast<size_t>(order[kept++])];
  while (kept > 1 && weights[static_cast<size_t>(order[kept - 1])] < s.min_p)
    taken -= weights[static_cast<size_t>(order[--kept])];
  order.resize(kept);
  std::sort(order.begin(), order.end());
  double running = 0;
  for (const Token token : order)
    if ((running += weights[static_cast<size_t>(token)]) > u * taken) return token;
  return order.back();
}

TEST(Sampler, ChoosesAsItsDefinitionUnderEveryInstructionSet) {
  std::mt19937_64 random(11);
  const auto one_of = [&](std::initializer_list<float> values) {
    return values.begin()[random() % values.size()];
  };
  for (int round = 0; round < 600; ++round) {
    const size_t vocab =
        std::initializer_list<size_t>{1, 2, 63, 64, 65, 1000, 5000}.begin()[random() % 7];
    Sampling s;
    s.temperature = one_of({0.05F, 0.7F, 1, 3, 100});
    s.top_k = static_cast<uint32_t>(one_of({0, 0, 1, 5, 40, 700, 4000}));
    s.top_p = one_of({1, 1, 0.999F, 0.95F, 0.5F, 1e-6F});
    s.min_p = one_of({0, 0, 0.01F, 0.5F, 1});
    s.seed = random();
    std::normal_distribution<float> normal(0, one_of({0, 0.3F, 4, 20}));
    const bool coarse = random() % 3 == 0;  // many equal logits
    std::vector<float> logits(vocab);
    for (float& logit : logits) {
      logit = normal(random);
      if (coarse) logit = std::round(logit);
      if (random() % 50 == 0) logit = -INFINITY;
    }
    logits[random() % vocab] = 1;  // at least one is possible
    const double u = static_cast<double>(std::mt19937_64(s.seed)() >> 11) * 0x1p-53;
    const Token expected = naive_choice(s, logits, u);
    for (const base::Isa isa : base::kIsas) {
      if (!base::isa_supported(isa)) continue;
      std::vector<float> copy = logits;
      ASSERT_EQ(Sampler(s, kernels::table(isa)).choose(copy), expected)
          << round << ": " << vocab << " tokens, temperature " << s.temperature << ", top-k "
          << s.top_k << ", top-p " << s.top_p << ", min-p " << s.min_p;
    }
  }
}

TEST(Sampler, PenalisesOnlyTokensInTheWindow) {
  Sampling s;
  s.temperature = 0;
  s.repetition_penalty = 2;
  s.penalty_window = 2;
  Sampler sampler(s, best());
  const std::vector<float> logits = {4, 3, -1};
  std::vector<float> copy = logits;
  sampler.accept(0);
  EXPECT_EQ(sampler.choose(copy), 1);  // 4 becomes 2
  sampler.accept(1);
  copy = logits;
  EXPECT_EQ(sampler.choose(copy), 0);  // both halved: 2 and 1.5
  sampler.accept(1);                   // 0 leaves the window
  copy = logits;
  EXPECT_EQ(sampler.choose(copy), 0);
  EXPECT_FLOAT_EQ(copy[0], 4);
  EXPECT_FLOAT_EQ(copy[1], 1.5);
}

TEST(Sampler, SubtractsPresenceOnceAndFrequencyPerTime) {
  Sampling s;
  s.temperature = 0;
  s.presence_penalty = 0.5F;
  s.frequency_penalty = 0.25F;
  Sampler sampler(s, best());
  sampler.accept(1);
  sampler.accept(1);
  std::vector<float> logits = {0, 3};
  (void)sampler.choose(logits);
  EXPECT_FLOAT_EQ(logits[1], 3 - 0.5F - 2 * 0.25F);
}

TEST(Sampler, PenalisesThePresenceOfTokensOfTheAnswerOnly) {
  Sampling s;
  s.temperature = 0;
  s.presence_penalty = 0.5F;
  s.frequency_penalty = 0.25F;
  s.repetition_penalty = 2;
  Sampler sampler(s, best());
  sampler.accept_prompt(0);
  sampler.accept_prompt(1);
  sampler.accept(1);
  std::vector<float> logits = {4, 4, 4};
  (void)sampler.choose(logits);
  EXPECT_FLOAT_EQ(logits[0], 2);  // repetition counts the prompt
  EXPECT_FLOAT_EQ(logits[1], 2 - 0.5F - 0.25F);
  EXPECT_FLOAT_EQ(logits[2], 4);
}

// Compares with counting the whole window anew for each token.
TEST(Sampler, CountsTheWindowAsIfItWereCountedAnew) {
  std::mt19937 random(8);
  for (const uint32_t window : {1U, 7U, 40U, UINT32_MAX}) {
    Sampling s;
    s.temperature = 0;
    s.repetition_penalty = 1.5F;
    s.presence_penalty = 0.5F;
    s.frequency_penalty = 0.25F;
    s.penalty_window = window;
    Sampler sampler(s, best());
    std::vector<std::pair<Token, bool>> all;
    for (size_t i = 0; i < 200; ++i) {
      all.emplace_back(static_cast<Token>(random() % 12), i < 60);
      if (i < 60)
        sampler.accept_prompt(all.back().first);
      else
        sampler.accept(all.back().first);
      std::vector<float> logits(12), expected;
      for (float& logit : logits) logit = static_cast<float>(random() % 9) - 4;
      expected = logits;
      for (Token token = 0; token < 12; ++token) {
        float times = 0, of_answer = 0;
        for (size_t j = all.size() - std::min<size_t>(all.size(), window); j < all.size(); ++j)
          if (all[j].first == token) ++times, of_answer += all[j].second ? 0 : 1;
        float& logit = expected[static_cast<size_t>(token)];
        if (times > 0) logit = logit > 0 ? logit / 1.5F : logit * 1.5F;
        if (of_answer > 0) logit -= 0.5F + 0.25F * of_answer;
      }
      (void)sampler.choose(logits);
      ASSERT_EQ(logits, expected) << i;
    }
  }
}

TEST(Sampler, AddsBiasAndForbidsWithMinusInfinity) {
  Sampling s;
  s.temperature = 0;
  s.logit_bias = {{5, -std::numeric_limits<float>::infinity()}, {0, 100.0F}};
  std::vector<float> logits = ramp();
  EXPECT_EQ(Sampler(s, best()).choose(logits), 0);
}

TEST(Sampling, RefusesValuesOutsideTheirRange) {
  const auto message = [](auto change) {
    Sampling s;
    change(s);
    const auto status = check(s, 10);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(message([](Sampling&) {}), "");
  EXPECT_NE(message([](Sampling& s) { s.temperature = -1; }), "");
  EXPECT_NE(message([](Sampling& s) { s.temperature = NAN; }), "");
  EXPECT_NE(message([](Sampling& s) { s.top_p = 0; }), "");
  EXPECT_NE(message([](Sampling& s) { s.min_p = 2; }), "");
  for (const float penalty : {0.0F, 0.009F, 101.0F, 1e38F, NAN})
    EXPECT_NE(message([&](Sampling& s) { s.repetition_penalty = penalty; }).find("[0.01, 100]"),
              std::string::npos)
        << penalty;
  for (const float penalty : {0.01F, 100.0F})
    EXPECT_EQ(message([&](Sampling& s) { s.repetition_penalty = penalty; }), "");
  EXPECT_NE(message([](Sampling& s) { s.presence_penalty = 1e9F; }), "");
  EXPECT_NE(message([](Sampling& s) { s.typical_p = 0; }), "");
  EXPECT_NE(message([](Sampling& s) { s.top_n_sigma = NAN; }), "");
  EXPECT_NE(message([](Sampling& s) { s.dynatemp_range = -1; }), "");
  EXPECT_NE(message([](Sampling& s) { s.dynatemp_exponent = 0; }), "");
  EXPECT_NE(message([](Sampling& s) { s.xtc.probability = 1.5F; }), "");
  EXPECT_NE(message([](Sampling& s) { s.xtc.threshold = -0.1F; }), "");
  EXPECT_NE(message([](Sampling& s) { s.mirostat.version = 3; }), "");
  EXPECT_NE(message([](Sampling& s) { s.mirostat.tau = -1; }), "");
  EXPECT_NE(message([](Sampling& s) { s.mirostat.eta = 2; }), "");
  EXPECT_NE(message([](Sampling& s) { s.dry.multiplier = -1; }), "");
  EXPECT_NE(message([](Sampling& s) { s.dry.base = 0.5F; }), "");
  EXPECT_NE(message([](Sampling& s) { s.dry.allowed_length = 0; }), "");
  EXPECT_NE(message([](Sampling& s) { s.dry.breakers = {""}; }), "");
  EXPECT_NE(message([](Sampling& s) { s.bad_words = {{}}; }), "");
  EXPECT_NE(message([](Sampling& s) {
              s.bad_words = {{3, 10}};
            }).find("vocabulary ends at 9"),
            std::string::npos);
  EXPECT_NE(message([](Sampling& s) { s.logit_bias[10] = 1; }).find("vocabulary ends at 9"),
            std::string::npos);
}

}  // namespace
}  // namespace kvick::engine
