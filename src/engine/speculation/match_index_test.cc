#include "engine/speculation/match_index.h"

#include <gtest/gtest.h>
#include <random>

namespace kvick::engine {
namespace {

using kv::Token;

// Returns the length of the longest match among the newest tokens, by trying all places.
uint32_t naive(const std::vector<Token>& added, size_t capacity, const std::vector<Token>& text) {
  const size_t first = added.size() > capacity ? added.size() - capacity : 0;
  uint32_t longest = 0;
  for (size_t place = first; place + 1 < added.size(); ++place) {
    uint32_t length = 0;
    while (length < MatchIndex::kMostLength && length < text.size() && place >= first + length &&
           added[place - length] == text[text.size() - 1 - length])
      ++length;
    if (added[place + 1] >= 0) longest = std::max(longest, length);
  }
  return longest;
}

TEST(MatchIndex, FindsMatchesAndWhatCameBehindThem) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    MatchIndex index(64);
    std::vector<Token> added;
    for (int i = 0; i < 300; ++i) {
      if (random() % 40 == 0 && !added.empty()) {
        index.begin();
        added.push_back(-1);
      }
      added.push_back(static_cast<Token>(random() % 5));
      index.add(added.back());
      std::vector<Token> text;
      for (int t = 0; t < 8; ++t) text.push_back(static_cast<Token>(random() % 5));
      std::vector<MatchIndex::Match> matches;
      index.find(text, matches);
      const uint32_t longest = naive(added, 64, text);
      // Chains are not walked to their end: a longer match may be further back.
      EXPECT_LE(matches.empty() ? 0 : matches[0].length, longest);
      if (longest > 0 && added.size() < 24) {
        EXPECT_EQ(matches.at(0).length, longest);
      }
      for (const MatchIndex::Match& match : matches) {
        std::vector<Token> both(text.end() - match.length, text.end());
        both.insert(both.end(), match.next.begin(), match.next.end());
        EXPECT_NE(std::search(added.begin(), added.end(), both.begin(), both.end()), added.end());
      }
    }
  }
}

TEST(MatchIndex, DoesNotMatchFromOneTextIntoTheNext) {
  MatchIndex index(64);
  for (const Token token : {1, 2}) index.add(token);
  index.begin();
  for (const Token token : {3, 4, 5}) index.add(token);
  std::vector<MatchIndex::Match> matches;
  const std::vector<Token> across = {2, 3}, end = {1, 2}, inside = {3, 4};
  index.find(across, matches);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].length, 1u);
  index.find(end, matches);
  EXPECT_TRUE(matches.empty()) << "nothing is behind it";
  index.find(inside, matches);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].next.size(), 1u);
  EXPECT_EQ(matches[0].next[0], 5);
}

}  // namespace
}  // namespace kvick::engine
