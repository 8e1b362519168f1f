#include "text/tokenizer/special_tokens.h"

#include <gtest/gtest.h>
#include <random>

#include "text/tokenizer/test_vocabulary.h"

namespace kvick::text {
namespace {

Vocabulary specials(const std::vector<std::string>& user_defined,
                    const std::vector<std::string>& control = {}) {
  Vocabulary v;
  for (const std::string& name : user_defined) add_piece(v, name, TokenKind::kUserDefined);
  for (const std::string& name : control) add_piece(v, name, TokenKind::kControl);
  return v;
}

std::vector<std::string> found(const Vocabulary& v, std::string_view text, bool control = true) {
  std::vector<std::string> out;
  for (const auto& match : SpecialTokens(v).find(text, control)) {
    EXPECT_EQ(text.substr(match.begin, v.pieces[match.token].size()), v.pieces[match.token]);
    out.push_back(fmt::format("{}-{} {}", match.begin, match.end, v.pieces[match.token]));
  }
  return out;
}

// The definition: the longest names first, each wherever it still fits, from left to right.
std::vector<std::string> naive(const Vocabulary& v, const std::string& text) {
  std::vector<std::string> out(text.size());
  std::string rest = text;
  for (size_t length = 8; length > 0; --length)
    for (size_t i = 0; i + length <= rest.size(); ++i)
      for (const std::string& name : v.pieces) {
        if (name.size() != length || rest.compare(i, length, name) != 0) continue;
        out[i] = fmt::format("{}-{} {}", i, i + length, name);
        rest.replace(i, length, std::string(length, '\0'));
      }
  std::erase(out, "");
  return out;
}

// The definition with leftmost_wins: from left to right, the longest name that begins there.
std::vector<std::string> naive_leftmost(const Vocabulary& v, const std::string& text) {
  std::vector<std::string> out;
  for (size_t i = 0; i < text.size();) {
    std::string longest;
    for (const std::string& name : v.pieces)
      if (name.size() > longest.size() && text.compare(i, name.size(), name) == 0) longest = name;
    if (!longest.empty()) out.push_back(fmt::format("{}-{} {}", i, i + longest.size(), longest));
    i += std::max<size_t>(longest.size(), 1);
  }
  return out;
}

TEST(SpecialTokens, MatchesAsTheDefinitionsDo) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto letters = [&](size_t n) {
      std::string out;
      while (out.size() < n) out += static_cast<char>('a' + random() % 3);
      return out;
    };
    Vocabulary v;
    for (int n = 0; n < 6; ++n) {
      const std::string name = letters(1 + random() % 6) + (random() % 4 ? "" : "d");
      if (std::find(v.pieces.begin(), v.pieces.end(), name) == v.pieces.end())
        add_piece(v, name, TokenKind::kControl);
    }
    std::string text = letters(random() % 40);
    for (char& c : text)
      if (random() % 6 == 0) c = 'd';
    ASSERT_EQ(found(v, text), naive(v, text)) << "seed " << seed << " " << text;
    v.leftmost_wins = true;
    ASSERT_EQ(found(v, text), naive_leftmost(v, text)) << "seed " << seed << " " << text;
  }
}

TEST(SpecialTokens, ALongerNameTakesItsBytesFromAShorterOneBeforeIt) {
  const Vocabulary v = specials({"<a<b", "<bcd>"});
  EXPECT_EQ(found(v, "<a<bcd>"), std::vector<std::string>{"2-7 <bcd>"});
  EXPECT_EQ(found(v, "<a<b<bcd>"), (std::vector<std::string>{"0-4 <a<b", "4-9 <bcd>"}));
}

TEST(SpecialTokens, TheLeftmostWinsWhereAFolderSaysSo) {
  Vocabulary v = specials({"<a<b", "<bcd>", "<a"});
  v.leftmost_wins = true;
  EXPECT_EQ(found(v, "<a<bcd>"), std::vector<std::string>{"0-4 <a<b"});
  EXPECT_EQ(found(v, "<a<b<bcd>"), (std::vector<std::string>{"0-4 <a<b", "4-9 <bcd>"}));
  EXPECT_EQ(found(v, "x<a<cd>"), std::vector<std::string>{"1-3 <a"});
}

TEST(SpecialTokens, ControlTokensAreMatchedOnlyOnDemand) {
  const Vocabulary v = specials({"<tool>"}, {"<|end|>"});
  EXPECT_EQ(found(v, "x<|end|><tool>", false), std::vector<std::string>{"8-14 <tool>"});
  EXPECT_EQ(found(v, "x<|end|><tool>", true).size(), 2u);
}

TEST(SpecialTokens, SomeSwallowTheWhiteSpaceBehindThem) {
  Vocabulary v = specials({}, {"<|end|>", "<s>", " \n "});
  v.strips_right = {0};
  EXPECT_EQ(found(v, "<|end|> \t\nx<s> <|end|>"),
            (std::vector<std::string>{"0-10 <|end|>", "11-14 <s>", "15-22 <|end|>"}));
  EXPECT_EQ(found(v, "<|end|>  \n x"), (std::vector<std::string>{"0-8 <|end|>", "8-11  \n "}));
}

std::vector<std::string> places(const Vocabulary& v, std::string_view text) {
  std::vector<std::string> out;
  for (const auto& match : SpecialTokens(v).find(text, true))
    out.push_back(fmt::format("{}-{} {}", match.begin, match.end, v.pieces[match.token]));
  return out;
}

TEST(SpecialTokens, SomeSwallowTheWhiteSpaceBeforeThem) {
  Vocabulary v = specials({}, {"<m>", "<e>"});
  v.strips_left = {0};
  EXPECT_EQ(places(v, "x \t\n<m> <e> <m>"),
            (std::vector<std::string>{"1-7 <m>", "8-11 <e>", "11-15 <m>"}));
  EXPECT_EQ(places(v, " <m>"), std::vector<std::string>{"0-4 <m>"});
  EXPECT_EQ(places(v, "x\u3000\u00a0<m>"), std::vector<std::string>{"1-9 <m>"});
  EXPECT_EQ(places(v, "x\xa0<m>"), std::vector<std::string>{"2-5 <m>"});  // a stray byte
  v.strips_right = {1};
  EXPECT_EQ(places(v, "<e>\u3000 <m>"), (std::vector<std::string>{"0-7 <e>", "7-10 <m>"}));
}

TEST(SpecialTokens, SomeStandAloneOnly) {
  Vocabulary v = specials({"day"}, {"<e>"});
  v.whole_words = {0};
  for (const char* text : {"monday", "days", "_day", "day2", "day\u0301", "\u00fcday", "day\u4e2d"})
    EXPECT_EQ(places(v, text), std::vector<std::string>{}) << text;
  for (const char* text : {"day", "a day.", "<e>day", "\u00abday\u00bb",
                           "\xff"
                           "day\xff"})
    EXPECT_EQ(places(v, text).back().substr(4), "day") << text;
  v.strips_right = {1};  // a token that is no match takes no white space from another
  EXPECT_EQ(places(v, "<e>  days"), std::vector<std::string>{"0-5 <e>"});
}

TEST(SpecialTokens, NormalizedOnesAreFoundInASearchOfTheirOwn) {
  Vocabulary v = specials({"ab", "e\u0301"}, {"bc"});
  v.normalized = {0, 1};
  v.nfc = true;
  const SpecialTokens special(v);
  ASSERT_EQ(special.find("abc", true).size(), 1u);
  EXPECT_EQ(special.find("abc", true)[0].token, 2);
  EXPECT_TRUE(special.find("abc", false).empty());
  ASSERT_EQ(special.find_normalized("abc", true).size(), 1u);
  EXPECT_EQ(special.find_normalized("abc", true)[0].token, 0);
  ASSERT_EQ(special.find_normalized("\u00e9", false).size(), 1u);
  EXPECT_EQ(special.find_normalized("\u00e9", false)[0].token, 1);
}

TEST(SpecialTokens, ThousandsOfNamesAndLongTextsAreNotQuadratic) {
  std::vector<std::string> all;
  for (int i = 0; i < 5000; ++i) all.push_back(fmt::format("<|reserved_{}|>", i));
  for (size_t length = 2; length < 32; ++length) all.push_back(std::string(length, ' '));
  const Vocabulary v = specials(all);
  const SpecialTokens special(v);
  EXPECT_EQ(special.find(std::string(8000 * 31, ' '), false).size(), 8000u);
  std::string text;
  while (text.size() < 1 << 16) text += "<|reserved_<|reserved_17|>";
  EXPECT_EQ(special.find(text, false).size(), text.size() / 26);
}

}  // namespace
}  // namespace kvick::text
