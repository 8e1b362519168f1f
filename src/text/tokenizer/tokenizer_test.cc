#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <random>

#include "text/tokenizer/test_vocabulary.h"
#include "text/tokenizer/vocabulary_check.h"

namespace kvick::text {
namespace {

Vocabulary chat_vocabulary() {
  Vocabulary v = byte_vocabulary({"h i", "Ã ©"});
  add_piece(v, "<|im_start|>", TokenKind::kControl);  // 258
  add_piece(v, "<|im_end|>", TokenKind::kControl);
  add_piece(v, "<tool>", TokenKind::kUserDefined);
  add_piece(v, "<unused1>", TokenKind::kUnused);
  v.bos = 258;
  v.eos = 259;
  return v;
}

TEST(Tokenizer, ParsesControlTokensOnlyOnDemandAndUserDefinedOnesAlways) {
  const auto tokenizer = make(chat_vocabulary());
  EXPECT_EQ(tokenizer->encode("<|im_start|>hi<tool>", true, true),
            (std::vector<Token>{258, 256, 260}));
  const auto plain = tokenizer->encode("<|im_start|>hi<tool>", true, false);
  EXPECT_EQ(plain.back(), 260);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 258), 0);
  EXPECT_EQ(tokenizer->decode(plain), "<|im_start|>hi<tool>");
}

TEST(Tokenizer, AddsBosAndEosWhenTheVocabularySaysSo) {
  Vocabulary v = chat_vocabulary();
  v.add_bos = v.add_eos = true;
  const auto tokenizer = make(v);
  EXPECT_EQ(tokenizer->encode("hi", true, true), (std::vector<Token>{258, 256, 259}));
  EXPECT_EQ(tokenizer->encode("hi", false, true), std::vector<Token>{256});
  EXPECT_EQ(tokenizer->encode("", true, true), (std::vector<Token>{258, 259}));
}

TEST(Tokenizer, AddsOtherTokensInPlaceOfBosAndEos) {
  Vocabulary v = chat_vocabulary();
  v.add_bos = v.add_eos = true;
  v.before = {260, 258};
  v.behind = {261};
  const auto tokenizer = make(v);
  EXPECT_EQ(tokenizer->encode("hi", true, true), (std::vector<Token>{260, 258, 256, 261}));
  EXPECT_EQ(tokenizer->encode("hi", false, true), std::vector<Token>{256});
  EXPECT_EQ(tokenizer->before(), v.before);
  EXPECT_EQ(tokenizer->behind(), v.behind);
  v.behind.clear();
  EXPECT_EQ(make(v)->behind(), std::vector<Token>{259});  // EOS
}

TEST(Tokenizer, TextsAreNormalisedBetweenSpecialTokens) {
  Vocabulary v = chat_vocabulary();
  add_piece(v, "o\u0308", TokenKind::kUserDefined);  // 262
  const std::vector<Token> apart = {'e', 0xCC, 0x81};
  EXPECT_EQ(make(v)->encode("e\u0301", false, true), apart);
  v.nfc = true;
  // Found in the text as it is.
  EXPECT_EQ(make(v)->encode("e\u0301o\u0308\u00f6", false, true),
            (std::vector<Token>{257, 262, 0xC3, 0xB6}));
  v.normalized = {262};
  const auto tokenizer = make(v);
  EXPECT_EQ(tokenizer->encode("e\u0301o\u0308\u00f6", false, true),
            (std::vector<Token>{257, 262, 262}));
  EXPECT_EQ(tokenizer->encode("e<tool>\u0301", false, true),
            (std::vector<Token>{'e', 260, 0xCC, 0x81}));
}

TEST(Tokenizer, PiecesOfSpecialTokensAreTheirNamesOrNothing) {
  const auto tokenizer = make(chat_vocabulary());
  EXPECT_EQ(tokenizer->piece(258, false), "");
  EXPECT_EQ(tokenizer->piece(258, true), "<|im_start|>");
  EXPECT_EQ(tokenizer->piece(260, false), "<tool>");
  EXPECT_EQ(tokenizer->piece(261, false), "");
  EXPECT_EQ(tokenizer->piece(257, false), "é");
  EXPECT_EQ(tokenizer->decode({258, 256, 259}, true), "<|im_start|>hi<|im_end|>");
  EXPECT_THROW(tokenizer->piece(262, false), base::Bug);
  EXPECT_THROW(tokenizer->piece(-1, false), base::Bug);
}

TEST(Tokenizer, EndsAreEosEotAndTheFamiliesNames) {
  Vocabulary v = chat_vocabulary();
  add_piece(v, "<|eot_id|>", TokenKind::kControl);  // 262
  add_piece(v, "</s>", TokenKind::kNormal);         // text that looks like an end token
  add_piece(v, "<|end|>", TokenKind::kControl);     // 264
  add_piece(v, "<stop>", TokenKind::kControl);
  v.eot = 265;
  const auto ends = [](const Tokenizer& tokenizer) {
    std::vector<Token> out;
    for (Token i = 0; i < static_cast<Token>(tokenizer.vocabulary().pieces.size()); ++i)
      if (tokenizer.ends_generation(i)) out.push_back(i);
    return out;
  };
  EXPECT_EQ(ends(*make(v)), (std::vector<Token>{259, 262, 264, 265}));
  add_piece(v, "<|return|>", TokenKind::kControl);
  add_piece(v, "<|call|>", TokenKind::kControl);  // with these two, <|end|> only ends a message
  EXPECT_EQ(ends(*make(v)), (std::vector<Token>{259, 262, 265, 266, 267}));
  Vocabulary solar = byte_vocabulary({});
  for (const char* name : {"<|end|>", "<|calls|>", "<|flush|>", "[PAD]"})
    add_piece(solar, name, TokenKind::kControl);
  EXPECT_EQ(ends(*make(solar)), (std::vector<Token>{257, 258, 259}));
  add_piece(v, "[e~[", TokenKind::kControl);  // 268, MiniMax-M2
  EXPECT_TRUE(make(v)->ends_generation(268));
  EXPECT_FALSE(make(v)->ends_generation(-1));
}

TEST(Tokenizer, WhatIsWrongWithAVocabularyIsSaidInOneLine) {
  const auto broken = [](auto change) {
    Vocabulary v = chat_vocabulary();
    change(v);
    return error_of(v);
  };
  EXPECT_EQ(broken([](auto& v) { v.pieces.clear(); }), "the vocabulary has no tokens");
  EXPECT_EQ(broken([](auto& v) { v.kinds.pop_back(); }),
            "the vocabulary has 262 tokens but 261 token types");
  EXPECT_EQ(broken([](auto& v) { v.eos = 262; }),
            "the vocabulary's eos token is 262, but it has only 262 tokens");
  EXPECT_EQ(broken([](auto& v) { v.unknown = -1; }),
            "the vocabulary's unknown token is -1, but it has only 262 tokens");
  EXPECT_EQ(broken([](auto& v) {
              v.strips_right = {1, 999};
            }),
            "token 999 shall strip white space, but there are only 262");
  EXPECT_EQ(broken([](auto& v) { v.behind = {262}; }),
            "token 262 shall stand behind texts, but there are only 262");
  EXPECT_EQ(broken([](auto& v) { v.normalized = {-1}; }),
            "token -1 shall be found in normalised texts, but there are only 262");
  EXPECT_EQ(broken([](auto& v) {
              v.add_bos = true;
              v.bos.reset();
            }),
            "the vocabulary asks for a BOS token in front of the text but names none");
  EXPECT_EQ(broken([](auto& v) { v.pieces[261] = "<tool>"; }),
            "tokens 260 and 261 are both '<tool>'");
  EXPECT_EQ(broken([](auto& v) { v.kinds[5] = static_cast<TokenKind>(9); }),
            "token 5 'ą' has a type that does not exist (9)");
  EXPECT_EQ(broken([](auto& v) { v.kinds[260] = TokenKind::kByte; }),
            "token 260 '<tool>' has the type of a byte, but such are named <0x00> to <0xFF>");
  EXPECT_EQ(broken([](auto& v) { v.pieces[260].assign(5000, 'x'); }),
            "token 260 has 5000 bytes; 4096 are the most that are taken");
  EXPECT_EQ(broken([](auto& v) { v.model = "a\nb"; }),
            "tokenizer model 'a\\x0ab' is not known; these are: gpt2, llama, gemma4, t5, bert");
}

TEST(Tokenizer, EmptyPiecesAreNoBother) {
  Vocabulary v = chat_vocabulary();
  v.pieces[258] = v.pieces[260] = v.pieces[261] = "";
  const auto tokenizer = make(v);
  EXPECT_EQ(tokenizer->encode("hi<tool>", true, true).front(), 256);
  EXPECT_EQ(tokenizer->piece(260, true), "");
}

TEST(Tokenizer, QuotesWhatCannotBePrinted) {
  EXPECT_EQ(show_piece("a\n\xFF"
                       "é"),
            "'a\\x0a\\xffé'");
  EXPECT_EQ(show_piece(std::string(100, 'x')), "'" + std::string(48, 'x') + "...'");
}

// Returns the bytes with invalid UTF-8 replaced, as StreamDecoder does.
std::string replaced(std::string bytes) {
  std::string out;
  drain_utf8(bytes, true, out);
  return out;
}

TEST(StreamDecoder, GivesWholeCharactersThatAddUpToDecode) {
  for (const bool sentence : {false, true}) {
    const auto tokenizer =
        make(sentence ? sentence_vocabulary({{"▁", 0}, {"é", 1}, {"▁a", 2}}) : chat_vocabulary());
    const size_t count = tokenizer->vocabulary().pieces.size();
    const std::string text = "aé€😀 x";
    for (uint32_t seed = 0; seed < 2000; ++seed) {
      std::mt19937 random(seed);
      std::vector<Token> tokens = tokenizer->encode(text, false, false);
      for (size_t n = random() % 4; n > 0; --n)
        tokens[random() % tokens.size()] = static_cast<Token>(random() % count);
      StreamDecoder stream(*tokenizer);
      std::string all;
      for (const Token token : tokens) {
        const std::string part = stream.push(token);
        ASSERT_EQ(replaced(part), part) << "half a character, seed " << seed;
        all += part;
      }
      ASSERT_EQ(all + stream.finish(), replaced(tokenizer->decode(tokens))) << "seed " << seed;
    }
  }
}

TEST(StreamDecoder, ReplacesAByteAsSoonAsItCannotBeCompleted) {
  const auto tokenizer = make(chat_vocabulary());
  StreamDecoder stream(*tokenizer);
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.push('x'), "\uFFFDx");
  EXPECT_EQ(stream.push(0xC0), "\uFFFD");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, KeepsTheLeadingSpaceOfAContinuation) {
  const auto tokenizer = make(sentence_vocabulary({{"▁", 0}, {"▁a", 2}}));
  EXPECT_EQ(StreamDecoder(*tokenizer).push(260), "a");
  EXPECT_EQ(StreamDecoder(*tokenizer, true).push(260), " a");
}

}  // namespace
}  // namespace kvick::text
