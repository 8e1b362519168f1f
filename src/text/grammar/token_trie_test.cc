#include "text/grammar/token_trie.h"

#include <gtest/gtest.h>

#include "text/tokenizer/test_vocabulary.h"

namespace kvick::text {
namespace {

bool has(const TokenBits& bits, Token token) {
  return (bits[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0;
}

Vocabulary with_end(Vocabulary v) {
  add_piece(v, "<|im_end|>", TokenKind::kControl);
  v.eos = static_cast<Token>(v.pieces.size() - 1);
  return v;
}

TEST(TokenTrie, HoldsTheBytesOfEachTokenOnce) {
  const auto tokenizer = make(with_end(byte_vocabulary({"a b", "ab c", "a c", "Ã ©"})));
  const auto trie = std::move(TokenTrie::make(*tokenizer)).value();
  std::vector<std::pair<Token, std::string>> found;
  std::string path;
  const ByteTrie& all = trie->all();
  for (size_t i = 0; i + 1 < all.nodes.size(); ++i) {
    path.resize(all.nodes[i].depth);
    path += static_cast<char>(all.nodes[i].byte);
    for (uint32_t t = all.nodes[i].first_token; t < all.nodes[i + 1].first_token; ++t)
      found.emplace_back(all.tokens[t], path);
    // What is not below begins with fewer bytes.
    const ByteTrie::Node& behind = all.nodes[all.nodes[i].behind];
    if (all.nodes[i].behind + 1U < all.nodes.size()) {
      EXPECT_LE(behind.depth, all.nodes[i].depth);
    }
  }
  std::sort(found.begin(), found.end());
  ASSERT_EQ(found.size(), 260U);
  for (const auto& [token, bytes] : found) EXPECT_EQ(bytes, tokenizer->piece(token, false));
}

TEST(TokenTrie, KnowsPlainTokensAndEnds) {
  const auto tokenizer = make(with_end(byte_vocabulary({"a b", "a \"", "Ã ©", "© a", "\" }"})));
  const auto trie = std::move(TokenTrie::make(*tokenizer)).value();
  for (const Token token : {int{'a'}, int{' '}, 256, 258}) EXPECT_TRUE(has(trie->plain(), token));
  for (const Token token : {int{'"'}, int{'\\'}, 0, 0xC3, 257, 259, 260, 261})
    EXPECT_FALSE(has(trie->plain(), token)) << token;
  EXPECT_TRUE(trie->ends_generation(261));
  EXPECT_FALSE(trie->ends_generation(260));
  EXPECT_EQ(trie->speakable().count(), 256U);
}

TEST(TokenTrie, NeedsATokenThatEnds) {
  const auto tokenizer = make(byte_vocabulary({}));
  const auto trie = TokenTrie::make(*tokenizer);
  ASSERT_FALSE(trie.ok());
  EXPECT_EQ(trie.error().message,
            "the model's vocabulary has no token that ends an answer, so answers cannot be held to "
            "a form");
}

}  // namespace
}  // namespace kvick::text
