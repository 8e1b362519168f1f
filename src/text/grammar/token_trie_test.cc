#include "text/grammar/token_trie.h"

#include <gtest/gtest.h>

#include "text/grammar/test_texts.h"
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
    // The next node that is not below this one is no deeper.
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

// Accepts a*. Also accepts n letters a or b, then m, then n letters p or q, where p or q closes an
// a and q closes a b. Each a doubles the number of readings.
base::Result<Grammar> doubling() {
  GrammarBuilder builder;
  const RuleId whole = builder.rule();
  const StateId alone = builder.state();
  const RuleId pair = builder.rule();
  builder.skip(builder.start(whole), alone);
  builder.byte(alone, 'a', alone);
  builder.skip(alone, builder.end(whole));
  builder.call(builder.start(whole), pair, builder.end(whole));
  const StateId a = builder.state(), b = builder.state(), p = builder.state(), q = builder.state();
  builder.byte(builder.start(pair), 'a', a);
  builder.byte(builder.start(pair), 'b', b);
  builder.byte(builder.start(pair), 'm', builder.end(pair));
  builder.call(a, pair, p);
  builder.call(a, pair, q);
  builder.call(b, pair, q);
  builder.byte(p, 'p', builder.end(pair));
  builder.byte(q, 'q', builder.end(pair));
  return std::move(builder).finish(ByteSet().set());
}

TEST(ByteAutomaton, DropsTheSameReadingsWhateverItHasReadBefore) {
  GrammarTexts one(doubling()), other(doubling());
  EXPECT_TRUE(other.begins("b"));  // numbers the stack that holds only q first
  int taken = 0;
  for (uint32_t ends = 0; ends < 2048; ++ends) {
    std::string text = std::string(11, 'a') + 'm';
    for (uint32_t i = 0; i < 11; ++i) text += (ends >> i & 1) != 0 ? 'p' : 'q';
    const bool takes = one.takes(text);
    EXPECT_EQ(takes, other.takes(text)) << text;
    taken += takes ? 1 : 0;
  }
  EXPECT_GT(taken, 500);
  EXPECT_LE(taken, static_cast<int>(ByteAutomaton::kMostReadings));
}

TEST(ByteAutomaton, TakesOverAWholeTextOfTheMostReadingsAsWhole) {
  const auto grammar = std::make_shared<const Grammar>(std::move(doubling()).value());
  ByteAutomaton from(grammar), to(grammar);
  ByteAutomaton::Node node = from.start();
  for (int i = 0; i < 12; ++i) node = from.step(node, 'a');
  ASSERT_TRUE(from.complete(node));
  ASSERT_EQ(from.readings(node), ByteAutomaton::kMostReadings + 1);  // plus the complete mark
  const ByteAutomaton::Node taken = to.adopt(from, node);
  EXPECT_TRUE(to.complete(taken));
  EXPECT_EQ(to.readings(taken), from.readings(node));
}

}  // namespace
}  // namespace kvick::text
