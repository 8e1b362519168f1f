#include "engine/answer/pair.h"

#include <gtest/gtest.h>

namespace kvick::engine {
namespace {

using Tokens = std::vector<text::Token>;

text::Vocabulary words() {
  text::Vocabulary v;
  v.model = "bert";
  v.pieces = {"[UNK]", "[CLS]", "[SEP]", "▁a", "▁b", "▁{", "▁}"};
  v.kinds = {text::TokenKind::kControl, text::TokenKind::kControl, text::TokenKind::kControl,
             text::TokenKind::kNormal,  text::TokenKind::kNormal,  text::TokenKind::kNormal,
             text::TokenKind::kNormal};
  v.unknown = 0, v.bos = 1, v.eos = v.separator = 2;
  v.add_bos = v.add_eos = true;
  return v;
}

TextPair pair_of(text::Vocabulary v, const char* query, const char* document) {
  return encode_pair(**text::Tokenizer::make(std::move(v)), query, document);
}

TEST(TextPair, StandsBetweenTheTokensOfBert) {
  const TextPair pair = pair_of(words(), "a", "b b");
  EXPECT_EQ(pair.tokens, (Tokens{1, 3, 2, 4, 4, 2}));
  EXPECT_EQ(pair.second, 3U);
}

TEST(TextPair, HasTwoSeparatorsWhereTheVocabularySaysSo) {
  text::Vocabulary v = words();
  v.add_separator = true;
  const TextPair pair = pair_of(v, "a", "b");
  EXPECT_EQ(pair.tokens, (Tokens{1, 3, 2, 2, 4, 2}));
  EXPECT_EQ(pair.second, 4U);
}

TEST(TextPair, OtherTokensMayStandAroundTheTexts) {
  text::Vocabulary v = words();
  v.before = {2, 1};
  v.behind = {0, 2};
  const TextPair pair = pair_of(v, "a", "b");
  EXPECT_EQ(pair.tokens, (Tokens{2, 1, 3, 0, 2, 4, 0, 2}));
  EXPECT_EQ(pair.second, 5U);
}

TEST(TextPair, FillsAPromptOnceAndLeavesBracesOfTheTexts) {
  text::Vocabulary v = words();
  v.pair_template = "a {query} b {document}[SEP]";
  EXPECT_EQ(pair_of(v, "b", "a").tokens, (Tokens{3, 4, 4, 3, 2}));
  const TextPair braces = pair_of(v, "{document}", "a");
  EXPECT_EQ(braces.tokens, (Tokens{3, 5, 0, 6, 4, 3, 2}));
  EXPECT_EQ(braces.second, braces.tokens.size());
}

}  // namespace
}  // namespace kvick::engine
