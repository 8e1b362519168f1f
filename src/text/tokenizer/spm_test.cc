#include "text/tokenizer/spm.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

#include "text/tokenizer/test_vocabulary.h"

namespace kvick::text {
namespace {

const std::vector<std::pair<std::string, float>> kPieces = {
    {"▁", -20},  {"a", -21},  {"b", -22}, {"c", -23}, {"é", -24},  {"ab", -1},
    {"bc", -2},  {"▁a", -3},  {"aa", -4}, {"▁▁", -5}, {"abc", -6}, {"aaa", -6},
    {"caé", -7}, {"éca", -7}, {"ca", -8}, {"aé", -8}, {"▁ab", 3}};

// The definition: begins with characters, and merges the adjacent pair whose text has the best
// score; of equal scores, the leftmost pair.
std::vector<std::string> naive(const Vocabulary& v, const std::string& text) {
  std::map<std::string, float> scores;
  for (size_t i = 259; i < v.pieces.size(); ++i) scores[v.pieces[i]] = v.scores[i];
  std::vector<std::string> parts = {"▁"};
  for (size_t i = 0; i < text.size(); i += decode_utf8(text.substr(i)).bytes)
    parts.push_back(text[i] == ' ' ? "▁" : text.substr(i, decode_utf8(text.substr(i)).bytes));
  for (;;) {
    size_t best = parts.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto score = scores.find(parts[i] + parts[i + 1]);
      if (score == scores.end()) continue;
      if (best == parts.size() || score->second > scores[parts[best] + parts[best + 1]]) best = i;
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

void expect_the_definition(const Vocabulary& v, size_t most) {
  const auto tokenizer = make(v);
  static const std::vector<std::string> kCharacters = {"a", "a", "b", "c", "é", " ", "  "};
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (size_t n = 1 + random() % most; n > 0; --n)
      text += kCharacters[random() % kCharacters.size()];
    ASSERT_EQ(names(*tokenizer, tokenizer->encode(text, false, false)), naive(v, text))
        << "seed " << seed << " '" << text << "'";
  }
}

TEST(Spm, MergesAsTheDefinitionDoes) { expect_the_definition(sentence_vocabulary(kPieces), 30); }

// If a piece has a space inside, words are no longer independent, and the whole text is encoded as
// one.
TEST(Spm, MergesAsTheDefinitionDoesAcrossSpaces) {
  auto pieces = kPieces;
  pieces.insert(pieces.end(), {{"b▁", -2}, {"c▁a", -3}, {"é▁", 5}, {"é▁▁", 5}});
  expect_the_definition(sentence_vocabulary(pieces), 80);
}

// Hugging Face's Metaspace with the scheme "first" does the same: no second space, and none after
// </s>.
TEST(Spm, MayPutItsSpaceBeforeTheWholeTextOnly) {
  using Names = std::vector<std::string>;
  Vocabulary v = sentence_vocabulary(kPieces);
  for (const bool once : {false, true}) {
    v.space_prefix_once = once;
    const auto tokenizer = make(v);
    const auto encode = [&](const char* text) {
      return names(*tokenizer, tokenizer->encode(text, false, true));
    };
    EXPECT_EQ(encode("b"), (Names{"▁", "b"}));
    EXPECT_EQ(encode(" b"), once ? (Names{"▁", "b"}) : (Names{"▁▁", "b"}));
    EXPECT_EQ(encode("b</s>b"),
              once ? (Names{"▁", "b", "</s>", "b"}) : (Names{"▁", "b", "</s>", "▁", "b"}));
    EXPECT_EQ(encode("</s> b"), once ? (Names{"</s>", "▁", "b"}) : (Names{"</s>", "▁▁", "b"}));
  }
}

// Hugging Face's Metaspace with the scheme "always": after special tokens too, but not before a
// space.
TEST(Spm, MayPutItsSpaceWhereNoneIs) {
  using Names = std::vector<std::string>;
  Vocabulary v = sentence_vocabulary(kPieces);
  v.space_prefix_spared = true;
  const auto tokenizer = make(v);
  const auto encode = [&](const char* text) {
    return names(*tokenizer, tokenizer->encode(text, false, true));
  };
  EXPECT_EQ(encode("b"), (Names{"▁", "b"}));
  EXPECT_EQ(encode(" b"), (Names{"▁", "b"}));
  EXPECT_EQ(encode("▁b"), (Names{"▁", "b"}));
  EXPECT_EQ(encode("  b"), (Names{"▁▁", "b"}));
  EXPECT_EQ(encode("b</s>b"), (Names{"▁", "b", "</s>", "▁", "b"}));
  EXPECT_EQ(encode("</s> b"), (Names{"</s>", "▁", "b"}));
}

// A character that is not a piece can still be part of one; elsewhere it becomes bytes.
TEST(Spm, FallsBackToBytes) {
  const auto tokenizer = make(sentence_vocabulary({{"▁", 0}, {"n", -9}, {"né", -1}}));
  EXPECT_EQ(names(*tokenizer, tokenizer->encode("né én", false, false)),
            (std::vector<std::string>{"▁", "né", "▁", "<0xC3>", "<0xA9>", "n"}));
  EXPECT_EQ(names(*tokenizer, tokenizer->encode("\xFF\xC3", false, false)),
            (std::vector<std::string>{"▁", "<0xFF>", "<0xC3>"}));
}

TEST(Spm, WithoutBytesARunOfUnknownCharactersIsOneUnknownToken) {
  const auto tokenizer = make(sentence_vocabulary({{"▁", 0}, {"n", -9}, {"né", -1}}, false));
  EXPECT_EQ(names(*tokenizer, tokenizer->encode("xyé éz né nxx", false, false)),
            (std::vector<std::string>{"▁", "<unk>", "▁", "<unk>", "▁", "né", "▁", "n", "<unk>"}));
}

TEST(Spm, PlainTextNeverBecomesAControlOrAByteToken) {
  const auto tokenizer = make(sentence_vocabulary(
      {{"▁", 0}, {"<", -1}, {"s", -2}, {">", -3}, {"<s", -1}, {"0", 0}, {"<0", 0}, {"x41>", 0}}));
  for (const Token token : tokenizer->encode("<s><0x41>", false, false))
    EXPECT_NE(tokenizer->vocabulary().kinds[token], TokenKind::kControl);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("<s><0x41>", false, false)), "<s><0x41>");
}

TEST(Spm, ASpaceGoesInFrontOfTheTextAndBehindSpecialTokens) {
  const auto tokenizer = make(sentence_vocabulary(kPieces));
  EXPECT_EQ(names(*tokenizer, tokenizer->encode("ab</s>b", false, true)),
            (std::vector<std::string>{"▁ab", "</s>", "▁", "b"}));
  EXPECT_EQ(tokenizer->encode("", false, true).size(), 0u);
  Vocabulary bare = sentence_vocabulary(kPieces);
  bare.add_space_prefix = false;
  EXPECT_EQ(names(*make(bare), make(bare)->encode("ab</s>b", false, true)),
            (std::vector<std::string>{"ab", "</s>", "b"}));
}

TEST(Spm, DecodingLeavesOutOneLeadingSpace) {
  Vocabulary v = sentence_vocabulary(kPieces);
  v.add_bos = v.add_eos = true;
  const auto tokenizer = make(v);
  for (const std::string text : {"ab", " ab", "  é", "a b c", "", " "}) {
    const auto tokens = tokenizer->encode(text, true, false);
    EXPECT_EQ(tokens.front(), 1);
    EXPECT_EQ(tokens.back(), 2);
    EXPECT_EQ(tokenizer->decode(tokens), text);
  }
}

TEST(Spm, LongTextsAreNotQuadratic) {
  const auto tokenizer = make(sentence_vocabulary(kPieces));
  for (const char c : {'a', ' ', 'x'}) {
    const std::string text(1 << 17, c);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, false)), text);
  }
}

TEST(Spm, BrokenVocabulariesAreNamed) {
  Vocabulary v = sentence_vocabulary(kPieces);
  v.scores.pop_back();
  EXPECT_EQ(error_of(v), "the vocabulary has 276 tokens but 275 scores");
  v.scores.push_back(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(error_of(v), "the score of token 275 '▁ab' is not a number");
  v = sentence_vocabulary(kPieces);
  v.unknown.reset();
  EXPECT_EQ(error_of(v), "no error");
  v.pieces[258] = "<0xfe>";  // the same byte twice, in two spellings: one byte is missing now
  EXPECT_EQ(error_of(v),
            "the vocabulary lacks 1 of the 256 byte tokens and names no unknown token, so that not "
            "all text has tokens");
}

// Gemma 4 merges in the order of its list; by score, "ab" would be merged first.
TEST(Spm, MergesByAListWhereTheVocabularyHasOne) {
  Vocabulary v = sentence_vocabulary({{"▁", 0},
                                      {"a", 0},
                                      {"b", 0},
                                      {"c", 0},
                                      {"ab", 9},
                                      {"bc", 0},
                                      {"▁a", 0},
                                      {"\n", 0},
                                      {"\n\n", 0},
                                      {"▁▁", 0},
                                      {"abc", 5}});
  v.model = "gemma4";
  v.scores.clear();
  v.add_space_prefix = false;
  v.merges = {"b c", "a b", "▁ a", "\n \n", "▁ ▁"};
  const auto tokenizer = make(v);
  EXPECT_EQ(
      names(*tokenizer, tokenizer->encode("abc a  ab\n\n\né", false, false)),
      (std::vector<std::string>{"a", "bc", "▁a", "▁▁", "ab", "\n\n", "\n", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" abc\n\n  é", false, false)), " abc\n\n  é");
  v.merges.emplace_back("a d");
  EXPECT_NE(error_of(v).find("needs 'd', which is not in the vocabulary"), std::string::npos)
      << error_of(v);
}

// Gemma 4 ends turns with tokens of its own, and its </s> is HTML, not the end of a text.
TEST(Spm, KnowsTheEndsOfGemma4) {
  Vocabulary v = sentence_vocabulary({{"a", 0}});
  v.model = "gemma4";
  v.eos.reset();
  v.merges.clear();
  const auto end_of_text = static_cast<Token>(2), turn = static_cast<Token>(v.pieces.size());
  EXPECT_TRUE(make(v)->ends_generation(end_of_text));
  add_piece(v, "<turn|>", TokenKind::kControl);
  add_piece(v, "<|tool_response>", TokenKind::kUserDefined);
  EXPECT_EQ(make(v)->ends(), (std::vector<Token>{turn, turn + 1}));
}

}  // namespace
}  // namespace kvick::text
