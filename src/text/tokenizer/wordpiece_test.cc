#include "text/tokenizer/wordpiece.h"

#include <gtest/gtest.h>
#include <random>

#include "text/tokenizer/test_vocabulary.h"

namespace kvick::text {
namespace {

Vocabulary words(bool lowercase = true) {
  Vocabulary v;
  v.model = "bert";
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"})
    add_piece(v, name, TokenKind::kControl);
  for (const char* piece :
       {"▁the", "▁cat", "s",    "▁un", "believ", "able", "▁,", "▁!", "▁漢", "▁e", "te",
        "▁i",   "n",    "▁caf", "e",   "▁ca",    "▁Ét",  "é",  "▁5", "0",   "▁%"})
    add_piece(v, piece);
  v.unknown = 1;
  v.bos = 2;
  v.eos = 3;
  v.add_bos = v.add_eos = true;
  v.lowercase = v.strip_accents = lowercase;
  return v;
}

struct Case {
  std::string text;
  std::vector<Token> lower, as_is;
};

// The expected tokens are those of Hugging Face's tokenizers 0.22.2, in lower case and unchanged.
TEST(WordPiece, IsWhatBertsTokenizerGives) {
  const Case cases[] = {
      {"The cats, unbelievable!", {4, 5, 6, 10, 7, 8, 9, 11}, {1, 5, 6, 10, 7, 8, 9, 11}},
      {"Café ÉTÉ Été", {17, 18, 13, 14, 13, 14}, {1, 1, 20, 21}},
      {"cat漢the", {5, 12, 4}, {5, 12, 4}},
      {"50% IN\u0130", {22, 23, 24, 1}, {22, 23, 24, 1}},
      {std::string("un\u00adbelie\u200bvable\0cat", 22), {1}, {1}},
      {"\tthe\u2028cat\n", {4, 5}, {4, 5}},
      {"dog cats", {1, 5, 6}, {1, 5, 6}},
      {std::string(101, 'c'), {1}, {1}},
      {"", {}, {}},
      {"cat\vs", {5, 6}, {5, 6}}};
  const auto lower = make(words()), as_is = make(words(false));
  for (const Case& one : cases) {
    EXPECT_EQ(lower->encode(one.text, false, false), one.lower) << one.text;
    EXPECT_EQ(as_is->encode(one.text, false, false), one.as_is) << one.text;
  }
}

TEST(WordPiece, StandsBetweenClsAndSep) {
  EXPECT_EQ(make(words())->encode("cat", true, false), (std::vector<Token>{2, 5, 3}));
  EXPECT_EQ(make(words())->encode("", true, false), (std::vector<Token>{2, 3}));
}

TEST(WordPiece, GivesWordsBack) {
  const auto tokenizer = make(words());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("unbelievable cats", false, false)),
            "unbelievable cats");
}

TEST(WordPiece, TakesAnyBytes) {
  const auto tokenizer = make(words());
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (uint32_t n = random() % 60; n > 0; --n) text += static_cast<char>(random());
    for (const Token token : tokenizer->encode(text, true, true))
      ASSERT_LT(static_cast<size_t>(token), tokenizer->vocabulary().pieces.size());
  }
}

TEST(WordPiece, NeedsATokenForUnknownWords) {
  Vocabulary v = words();
  v.unknown.reset();
  const auto made = Tokenizer::make(std::move(v));
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("names no token"), std::string::npos);
}

}  // namespace
}  // namespace kvick::text
