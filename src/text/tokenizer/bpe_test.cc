#include "text/tokenizer/bpe.h"

#include <gtest/gtest.h>
#include <random>

#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/test_vocabulary.h"

namespace kvick::text {
namespace {

const std::vector<std::string> kMerges = {"h e", "l l",  "he ll", "hell o",
                                          "Ġ w", "Ġw o", "a a",   "aa aa"};

TEST(Bpe, MergesByRankAndTakesWholePieces) {
  const auto tokenizer = make(byte_vocabulary(kMerges));
  EXPECT_EQ(names(*tokenizer, tokenizer->encode("hello woe", true, true)),
            (std::vector<std::string>{"hello", "Ġwo", "e"}));
  EXPECT_EQ(names(*tokenizer, tokenizer->encode("aaaaaaa", true, true)),
            (std::vector<std::string>{"aaaa", "aa", "a"}));
}

// A piece that no sequence of merges makes becomes a token only in families with whole_pieces.
TEST(Bpe, SomeFamiliesTakeAPieceWhateverTheMergesSay) {
  for (const auto& [name, whole] :
       {std::pair{"llama-bpe", true}, {"dbrx", false}, {"glm4", true}, {"chatglm-bpe", false}}) {
    Vocabulary v = byte_vocabulary({"a b", "b c"}, name);
    add_piece(v, "abc");
    const auto tokenizer = make(v);
    EXPECT_EQ(names(*tokenizer, tokenizer->encode("abc", false, false)),
              whole ? std::vector<std::string>{"abc"} : (std::vector<std::string>{"ab", "c"}))
        << name;
  }
}

TEST(Bpe, AnyBytesComeBack) {
  const auto tokenizer = make(byte_vocabulary(kMerges));
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (size_t n = random() % 300; n > 0; --n)
      text += random() % 2 ? static_cast<char>(random()) : "hello wa"[random() % 8];
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text, true, true)), text) << "seed " << seed;
  }
}

TEST(Bpe, LongWordsAreNotQuadratic) {
  const auto tokenizer = make(byte_vocabulary(kMerges));
  EXPECT_EQ(tokenizer->encode(std::string(1 << 18, 'a'), false, false).size(), 1u << 16);
  EXPECT_EQ(tokenizer->encode(std::string(1 << 18, ' '), false, false).size(), 1u << 18);
}

TEST(Bpe, AByteWithoutAPieceIsTheUnknownTokenOrLeftOut) {
  Vocabulary v = byte_vocabulary({"a b"});
  v.pieces[7] = "gone";
  v.unknown = 7;  // normal, or control as in GPT-2's <|endoftext|>: must never come from text
  const auto without = make(v);
  EXPECT_EQ(names(*without, without->encode("a\ab", false, false)),
            (std::vector<std::string>{"a", "b"}));
  v.kinds[7] = TokenKind::kUnknown;
  const auto with = make(v);
  EXPECT_EQ(names(*with, with->encode("a\ab", false, false)),
            (std::vector<std::string>{"a", "gone", "b"}));
}

TEST(Bpe, PiecesOutsideOfTheAlphabetAreText) {
  Vocabulary v = byte_vocabulary({});
  add_piece(v, "日本 x");
  const auto tokenizer = make(v);
  EXPECT_EQ(tokenizer->piece(256, false), "日本 x");
}

TEST(Bpe, BrokenMergesAndPreTokenizersAreNamed) {
  EXPECT_EQ(error_of(byte_vocabulary({}, "smol")),
            "pre-tokenizer 'smol' is not known; these are: " + pre_tokenizer_names());
  Vocabulary v = byte_vocabulary({"a b"});
  v.merges.push_back("ab");
  EXPECT_EQ(error_of(v), "merge 1 is 'ab', not two pieces with a space between them");
  v.merges.back() = "ab zz";
  EXPECT_EQ(error_of(v), "merge 1 ('ab zz') needs 'zz', which is not in the vocabulary");
  v.merges.back() = "b a";
  EXPECT_EQ(error_of(v), "merge 1 ('b a') needs 'ba', which is not in the vocabulary");
  v.merges.back() = " ";
  EXPECT_EQ(error_of(v), "merge 1 is ' ', not two pieces with a space between them");
}

}  // namespace
}  // namespace kvick::text
