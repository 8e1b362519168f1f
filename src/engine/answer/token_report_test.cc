#include "engine/answer/token_report.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "engine/answer/beams.h"

namespace kvick::engine {
namespace {

TEST(TokenReport, ListsTheLikeliestAsSortingAllWould) {
  std::mt19937 random(3);
  for (const size_t vocab : {1u, 5u, 300u}) {
    std::vector<float> logits(vocab);
    for (float& logit : logits) logit = static_cast<float>(random() % 50) / 7 - 3;
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    std::vector<TokenChance> all;
    for (size_t i = 0; i < vocab; ++i) all.push_back({static_cast<Token>(i), logits[i]});
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.logprob > b.logprob; });
    for (const size_t count : {0u, 1u, 4u, 20u}) {
      const auto top = likeliest(logits, count);
      ASSERT_EQ(top.size(), std::min(count, vocab));
      for (size_t i = 0; i < top.size(); ++i) {
        EXPECT_EQ(top[i].token, all[i].token);
        EXPECT_NEAR(top[i].logprob, all[i].logprob - std::log(sum), 1e-5);
      }
    }
  }
}

TEST(Beams, ChoosesTheBestOfAllContinuations) {
  const Beam beams[] = {{-1, {{4, -0.5F}, {5, -2.0F}}}, {-2, {{6, -0.1F}, {7, -0.2F}}}};
  const auto best = best_continuations(beams, 3);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].token, 4);
  EXPECT_EQ(best[1].token, 6);
  EXPECT_EQ(best[2].token, 7);
  EXPECT_EQ(best[2].beam, 1u);
  EXPECT_NEAR(best[2].score, -2.2, 1e-6);
  EXPECT_NEAR(length_normalised(-6, 4, 1), -1.5, 1e-12);
  EXPECT_NEAR(length_normalised(-6, 4, 0), -6, 1e-12);
}

}  // namespace
}  // namespace kvick::engine
