#include "text/tokenizer/fill_in.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "text/tokenizer/test_vocabulary.h"

namespace kvick::text {
namespace {

// Makes a tokenizer with control tokens of these names, from token 256 on.
std::unique_ptr<Tokenizer> with(const std::vector<std::string>& names) {
  Vocabulary v = byte_vocabulary({});
  for (const std::string& name : names) add_piece(v, name, TokenKind::kControl);
  return make(std::move(v));
}

// Returns the prompt as text, with control tokens as their names.
std::string shown(const Tokenizer& tokenizer, const FillInText& text) {
  return tokenizer.decode(fill_in_prompt(tokenizer, text), true);
}

TEST(FillIn, TokensAreKnownByTheirNamesInTheFamilies) {
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                             {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                             {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
                                             {"<|prefix|>", "<|suffix|>", "<|middle|>"},
                                             {"▁<PRE>", "▁<SUF>", "▁<MID>"}}) {
    const auto tokenizer = with(names);
    EXPECT_TRUE(can_fill_in(tokenizer->vocabulary())) << names[0];
    EXPECT_EQ(tokenizer->vocabulary().fill_in.middle, 258);
  }
  EXPECT_FALSE(can_fill_in(with({"<|fim_prefix|>", "<|fim_suffix|>"})->vocabulary()));
  EXPECT_FALSE(can_fill_in(with({})->vocabulary()));
}

TEST(FillIn, TheFilesNumbersGoBeforeNames) {
  Vocabulary v = byte_vocabulary({});
  for (const char* name : {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<a>"})
    add_piece(v, name, TokenKind::kControl);
  v.fill_in.prefix = 259;
  EXPECT_EQ(shown(*make(v), {.before = "x", .after = "y"}), "<a>x<|fim_suffix|>y<|fim_middle|>");
  v.fill_in.prefix = 260;
  EXPECT_NE(error_of(v).find("FIM prefix token is 260"), std::string::npos);
}

TEST(FillIn, ThePromptBeginsWithWhatStandsBeforeAText) {
  Vocabulary v = byte_vocabulary({});
  for (const char* name : {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<a>"})
    add_piece(v, name, TokenKind::kControl);
  v.before = {259, 259};
  EXPECT_EQ(shown(*make(v), {.before = "x", .after = "y"}),
            "<a><a><|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>");
}

TEST(FillIn, TheAnswerComesBehindBothTexts) {
  const auto tokenizer = with({"<fim_prefix>", "<fim_suffix>", "<fim_middle>"});
  const FillInText text = {.before = "a<fim_middle>b", .after = "", .files = {{"n", "t"}}};
  const std::vector<Token> prompt = fill_in_prompt(*tokenizer, text);
  EXPECT_EQ(tokenizer->decode(prompt, true),
            "--- n ---\n\nt\n\n<fim_prefix>a<fim_middle>b<fim_suffix><fim_middle>");
  // The name of a control token inside a text is plain text.
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), 258), 1);
}

TEST(FillIn, FilesHaveTheirNamesBeforeThem) {
  const auto tokenizer =
      with({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"});
  EXPECT_EQ(shown(*tokenizer, {.before = "x", .after = "y", .files = {{"a.c", "1"}, {"b.c", "2"}}}),
            "<|repo_name|>project\n<|file_sep|>a.c\n1<|file_sep|>b.c\n2<|file_sep|>this file\n"
            "<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>");
  EXPECT_EQ(shown(*tokenizer, {.before = "x", .after = "y"}),
            "<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>");
}

TEST(FillIn, APromptBeginsAsTheVocabularySays) {
  Vocabulary v = byte_vocabulary({});
  for (const char* name : {"<PRE>", "<SUF>", "<MID>", "<s>"})
    add_piece(v, name, TokenKind::kControl);
  v.bos = 259;
  v.add_bos = true;
  EXPECT_EQ(shown(*make(v), {.before = "x", .after = "y"}), "<s><PRE>x<SUF>y<MID>");
}

}  // namespace
}  // namespace kvick::text
