#include "engine/speculation/match_drafter.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace kvick::engine {
namespace {

using kv::Token;

// What the text's last token and a node's draft tokens are together, from the front.
std::vector<Token> said_by(const DraftTree& tree, size_t node, Token last) {
  std::vector<Token> said;
  for (auto at = static_cast<int32_t>(node); at >= 0;
       at = tree.nodes[static_cast<size_t>(at)].parent)
    said.push_back(tree.nodes[static_cast<size_t>(at)].token);
  said.push_back(last);
  std::reverse(said.begin(), said.end());
  return said;
}

// Few letters, so that matches of one length are many and the longest is often the one that is
// followed by the fewest tokens.
TEST(LookupDrafter, DraftsOnlyWhatTheTextHasSaidBefore) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    LookupDrafter drafter;
    std::vector<Token> text;
    for (int i = 0; i < 120; ++i) {
      text.push_back(static_cast<Token>(random() % 3));
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

}  // namespace
}  // namespace kvick::engine
