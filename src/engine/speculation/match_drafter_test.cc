#include "engine/speculation/match_drafter.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace kvick::engine {
namespace {

using kv::Token;

// Returns the text's last token and the draft tokens on the path to a node.
std::vector<Token> said_by(const DraftTree& tree, size_t node, Token last) {
  std::vector<Token> said;
  for (auto at = static_cast<int32_t>(node); at >= 0;
       at = tree.nodes[static_cast<size_t>(at)].parent)
    said.push_back(tree.nodes[static_cast<size_t>(at)].token);
  said.push_back(last);
  std::reverse(said.begin(), said.end());
  return said;
}

// The texts have few distinct tokens, so that many matches have the same length, and the longest is
// often followed by the fewest tokens.
TEST(LookupDrafter, DraftsOnlyWhatTheTextHasSaidBefore) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    // In every second round the beginning of the text has an index of its own.
    const size_t prompt = seed % 2 == 0 ? 60 : 0;
    LookupDrafter drafter(prompt > 0 ? std::make_shared<PromptMatches>(prompt) : nullptr);
    std::vector<Token> text;
    for (int i = 0; i < 120; ++i) {
      text.push_back(static_cast<Token>(random() % 3));
      if (text.size() <= prompt) continue;
      DraftTree tree;
      drafter.draft({.text = text, .most = 24, .depth = 12}, tree);
      ASSERT_LE(tree.nodes.size(), 24u);
      for (size_t node = 0; node < tree.nodes.size(); ++node) {
        const std::vector<Token> said = said_by(tree, node, text.back());
        EXPECT_NE(std::search(text.begin(), text.end(), said.begin(), said.end()), text.end());
      }
    }
  }
}

TEST(LookupDrafter, IndexesAPromptOnceForAllAnswersToIt) {
  std::vector<Token> prompt(100);
  std::iota(prompt.begin(), prompt.end(), 0);
  const auto matches = std::make_shared<PromptMatches>(prompt.size());
  const auto drafted = [&](LookupDrafter& drafter, std::vector<Token> text,
                           std::initializer_list<Token> answer) {
    text.insert(text.end(), answer);
    DraftTree tree;
    drafter.draft({.text = text, .most = 3, .depth = 3}, tree);
    std::vector<Token> tokens;
    for (const DraftTree::Node& node : tree.nodes) tokens.push_back(node.token);
    return tokens;
  };
  LookupDrafter first(matches), second(matches);
  EXPECT_EQ(drafted(first, prompt, {10, 11}), (std::vector<Token>{12, 13, 14}));
  EXPECT_EQ(drafted(first, prompt, {10, 11, 90, 91}), (std::vector<Token>{92, 93, 94}));
  // The second drafter uses the shared index and does not read the beginning of its own text.
  const std::vector<Token> other(100, 200);
  EXPECT_EQ(drafted(second, other, {10, 11}), (std::vector<Token>{12, 13, 14}));
  // Tokens of an answer are not in the shared index.
  EXPECT_EQ(drafted(first, prompt, {10, 11, 90, 91, 300, 301, 302, 300}),
            (std::vector<Token>{301, 302}));
  EXPECT_TRUE(drafted(second, other, {10, 11, 300}).empty());
}

}  // namespace
}  // namespace kvick::engine
