#include "engine/answer/loop_watch.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace kvick::engine {
namespace {

using Tokens = std::vector<kv::Token>;

// The definition.
bool loops(const Tokens& tokens) {
  for (size_t period = 1; period <= LoopWatch::kMostPeriod; ++period) {
    const size_t length = std::max(LoopWatch::kRepeats * period, LoopWatch::kTokens);
    if (tokens.size() < length) continue;
    const auto tail = tokens.end() - static_cast<ptrdiff_t>(length);
    if (std::equal(tail + static_cast<ptrdiff_t>(period), tokens.end(), tail)) return true;
  }
  return false;
}

// Returns after how many tokens the watch reports a loop; 0: never.
size_t noticed(const Tokens& tokens) {
  LoopWatch watch;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (watch.add(tokens[i])) return i + 1;
  return 0;
}

Tokens repeated(size_t period, size_t count) {
  Tokens tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<kv::Token>(i % period));
  return tokens;
}

TEST(LoopWatch, NoticesAPieceThatIsSaidThreeTimesAndFillsNinetySixTokens) {
  EXPECT_EQ(noticed(repeated(1, 200)), 96U);
  EXPECT_EQ(noticed(repeated(7, 200)), 96U);
  EXPECT_EQ(noticed(repeated(32, 200)), 96U);
  EXPECT_EQ(noticed(repeated(50, 200)), 150U);
  EXPECT_EQ(noticed(repeated(64, 200)), 192U);
}

TEST(LoopWatch, LetsLongerPiecesAndShorterRepetitionsBe) {
  EXPECT_EQ(noticed(repeated(65, 1000)), 0U);
  Tokens tokens;
  for (int round = 0; round < 20; ++round) {
    const Tokens piece = repeated(5, 95);
    tokens.insert(tokens.end(), piece.begin(), piece.end());
    tokens.push_back(1000 + round);
  }
  EXPECT_EQ(noticed(tokens), 0U);
}

TEST(LoopWatch, SaysOfEveryBeginningWhatTheDefinitionSays) {
  std::mt19937 random(5);
  const auto below = [&](uint32_t n) { return random() % n; };
  size_t looped = 0;
  for (int round = 0; round < 100; ++round) {
    LoopWatch watch;
    Tokens tokens;
    while (tokens.size() < 500) {
      // Pieces that repeat often, each followed by one other token.
      const Tokens piece = repeated(1 + below(70), 1 + below(250));
      tokens.insert(tokens.end(), piece.begin(), piece.end());
      tokens.push_back(static_cast<kv::Token>(below(3)));
    }
    Tokens so_far;
    for (const kv::Token token : tokens) {
      so_far.push_back(token);
      const bool expected = loops(so_far);
      looped += expected ? 1 : 0;
      ASSERT_EQ(watch.add(token), expected) << "round " << round << ", token " << so_far.size();
    }
  }
  EXPECT_GT(looped, 0U);
}

TEST(LoopWatch, NeverEndsTextWithoutSuchATail) {
  std::mt19937 random(6);
  for (int round = 0; round < 20; ++round) {
    LoopWatch watch;
    // With only two different tokens, a tail of 96 that repeats has a probability of about 2^-64.
    for (int i = 0; i < 5000; ++i) ASSERT_FALSE(watch.add(static_cast<kv::Token>(random() & 1)));
  }
}

}  // namespace
}  // namespace kvick::engine
