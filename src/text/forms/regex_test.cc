// Regular expressions: which texts are accepted, and which can be continued, compared with PCRE2.

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <cmath>
#include <gtest/gtest.h>
#include <pcre2.h>
#include <random>

#include "text/forms/test_forms.h"
#include "text/grammar/grammar_constraint.h"
#include "text/grammar/test_choices.h"

namespace kvick::text {
namespace {

class Twin {
 public:
  explicit Twin(const std::string& pattern) {
    const std::string whole = "\\A(?:" + pattern + ")\\z";
    int error = 0;
    PCRE2_SIZE at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(), PCRE2_UTF,
                          &error, &at, nullptr);
    EXPECT_NE(code_, nullptr) << pattern;
    data_ = pcre2_match_data_create(1, nullptr);
  }
  ~Twin() {
    pcre2_match_data_free(data_);
    pcre2_code_free(code_);
  }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;

  bool takes(const std::string& text) const { return match(text, 0) >= 0; }
  bool begins(const std::string& text) const {
    if (text.empty()) return true;  // PCRE2 reports no partial match in an empty text
    const int found = match(text, PCRE2_PARTIAL_SOFT);
    return found >= 0 || found == PCRE2_ERROR_PARTIAL;
  }

 private:
  int match(const std::string& text, uint32_t options) const {
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, options,
                       data_, nullptr);
  }
  pcre2_code* code_;
  pcre2_match_data* data_;
};

const std::vector<std::string>& letters() {
  static const std::vector<std::string> kLetters = {"a", "b", "c", "1", " ", "\n", "é", "-"};
  return kLetters;
}

using Random = std::mt19937;

std::string random_regex(Random& random, int depth) {
  static const std::vector<std::string> kAtoms = {"a",    "b",       "c",   "1",   "é",   ".",
                                                  "\\d",  "\\w",     "\\s", "\\S", "\\W", "[ab]",
                                                  "[^a]", "[a-c1é]", "-",   "[]a]"};
  static const std::vector<std::string> kCounts = {"*",    "+",     "?",  "{2}",
                                                   "{1,}", "{0,2}", "*?", "{1,3}?"};
  std::string out;
  for (size_t n = random() % 4; n > 0; --n) {
    std::string atom = kAtoms[random() % kAtoms.size()];
    if (depth > 0 && random() % 3 == 0)
      atom = (random() % 2 != 0 ? "(" : "(?:") + random_regex(random, depth - 1) + ")";
    out += atom;
    if (random() % 3 == 0) out += kCounts[random() % kCounts.size()];
  }
  if (depth > 0 && random() % 4 == 0) out += "|" + random_regex(random, depth - 1);
  return out;
}

void expect_same(const std::string& pattern, Random& random) {
  SCOPED_TRACE(pattern);
  GrammarTexts texts(regex(pattern));
  const Twin twin(pattern);
  for (int i = 0; i < 60; ++i) {
    std::string text;
    for (size_t n = random() % 7; n > 0; --n) text += letters()[random() % letters().size()];
    ASSERT_EQ(texts.takes(text), twin.takes(text)) << text;
    ASSERT_EQ(texts.begins(text), twin.begins(text)) << text;
  }
}

TEST(Regex, TakesAndBeginsWhatPcreDoes) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    const std::string pattern = random_regex(random, 3);
    expect_same(pattern, random);
    if (HasFailure()) return;
  }
}

TEST(Regex, HasThePartsOfPythons) {
  Random random(1);
  for (const char* pattern : {"^a+b$",
                              "\\Aa|b\\Z",
                              "(?P<name>a)b",
                              "a(?#a comment)b",
                              "a{x}",
                              "a{,2}",
                              "a{}",
                              "[]-]+",
                              "[^]a]",
                              "\\x61\\t?",
                              "a{1",
                              "{a",
                              "\\-\\.?",
                              "[\\d-]{1,3}",
                              "(a*)*b",
                              "(?:a|)b+?",
                              "(?i)A[B-C]+1?",
                              "(?i:A)b",
                              "a\\b[ -]b",
                              "a\\Bb+",
                              "(?:\\b[a-c]+\\b ?)*"}) {
    if (std::string_view(pattern) == "a{,2}")  // PCRE2 takes {,2} as literal characters
      expect_texts(GrammarTexts(regex(pattern)), {"", "a", "aa"}, {"aaa", "a{,2}"});
    else
      expect_same(pattern, random);
  }
  expect_texts(GrammarTexts(regex("\\u00e9\\U0001F600\\a")), {"é\U0001F600\a"}, {"é"});
  expect_texts(GrammarTexts(regex("(?i)ké")), {"ké", "Ké"}, {"kÉ", "\u212Aé"});
  expect_texts(GrammarTexts(regex("a|b")), {"a", "b"}, {"ab", "xa", "bx", ""});
  expect_texts(GrammarTexts(regex(".{0,1000}")), {"", std::string(1000, 'x')},
               {std::string(1001, 'x'), "a\nb"});
}

TEST(Regex, SaysWhatItDoesNotTake) {
  const std::string read = "the regular expression cannot be read: ";
  const auto error = [](std::string_view text) { return error_of(regex(text)); };
  EXPECT_EQ(error("(a"), read + "a group is not closed at byte 2 of '(a'");
  for (const char* text : {"(?=a)", "(?!a)", "(?<=a)", "(?s)a", "(?P=x)"})
    EXPECT_EQ(error(text),
              read + fmt::format("a look-around, a flag, a condition or a reference is "
                                 "not supported at byte 0 of '{}'",
                                 text));
  EXPECT_EQ(error("(a)\\1"), read + "\\1 is not supported at byte 4 of '(a)\\1'");
  EXPECT_EQ(error("\\b*x"), read + "a repetition of nothing at byte 2 of '\\b*x'");
  EXPECT_EQ(error("\\01"), read + "an octal escape is not supported at byte 2 of '\\01'");
  EXPECT_EQ(error("a*+"), read + "a repetition of nothing at byte 2 of 'a*+'");
  EXPECT_EQ(error("a(?#b"), read + "a comment is not closed at byte 1 of 'a(?#b'");
  EXPECT_EQ(
      error("[^\\s\\S]"),
      "the regular expression cannot be used: no text matches it, within 64 levels of nesting");
  EXPECT_NE(error(std::string(kMostRegexBytes + 1, 'a')).find("at most 32768"), std::string::npos);
  EXPECT_NE(error("((a{900}){900}){900}").find("too large"), std::string::npos);
}

// All strings of 1 to 4 letters as tokens.
std::shared_ptr<const TokenTrie> letter_tokens() {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  v.pieces.emplace_back("</s>");
  for (size_t first = 0, length = 1; length <= 4; ++length) {
    const size_t end = v.pieces.size();
    for (size_t piece = first; piece < end; ++piece)
      for (char letter = 'i'; letter <= 'p'; ++letter)
        v.pieces.push_back((length == 1 ? "" : v.pieces[piece]) + letter);
    first = end;
  }
  v.kinds.resize(v.pieces.size());
  v.kinds[0] = TokenKind::kControl;
  v.eos = 0;
  const auto tokenizer = std::move(Tokenizer::make(std::move(v))).value();
  return std::move(TokenTrie::make(*tokenizer)).value();
}

TEST(Regex, WithManyReadingsIsFollowedByShorterTokensAndStillExactly) {
  const auto tokens = letter_tokens();
  const auto allowed_after = [&](size_t letters, uint64_t most_work) {
    auto grammar = regex_grammar("[i-p]*[i-m][i-p]{40}", tokens->speakable());
    EXPECT_TRUE(grammar.ok());
    const auto constraint =
        grammar_constraint(tokens, std::move(grammar).value(), most_work)->clone();
    for (size_t i = 0; i < letters; ++i) constraint->accept(static_cast<int32_t>(1 + i % 8));
    std::vector<float> logits(tokens->vocab());
    constraint->mask(logits);
    std::vector<size_t> allowed(6);  // tokens of each length
    for (size_t token = 0; token < logits.size(); ++token) {
      if (std::isinf(logits[token])) continue;
      ++allowed[tokens->bytes_of(static_cast<int32_t>(token)).size()];
      constraint->clone()->accept(static_cast<int32_t>(token));  // checks it
    }
    return allowed;
  };
  const size_t all = 8 + 64 + 512 + 4096;
  const std::vector<size_t> plain = allowed_after(60, kMostMaskWork);
  EXPECT_EQ(plain[1] + plain[2] + plain[3] + plain[4], all);
  for (const uint64_t most_work : {0, 400, 10'000}) {
    const std::vector<size_t> bounded = allowed_after(60, most_work);
    EXPECT_EQ(bounded[1], 8U) << most_work;
    EXPECT_EQ(bounded[0], plain[0]) << most_work;
    EXPECT_LT(bounded[4], plain[4]) << most_work;
  }
  EXPECT_EQ(allowed_after(0, 10'000)[2], 64U);  // few readings: the limit is not reached
}

// Each of these loops accepts the empty text, and the checks examine all loops for each state.
TEST(Regex, OfManyNullableLoopsIsReadInOneGo) {
  std::string many;
  for (int i = 0; i < 400; ++i) many += fmt::format("(?:{}*)*", static_cast<char>('a' + i % 26));
  EXPECT_TRUE(regex(many).ok());
  std::string rules = "root ::= r0\n";
  for (int i = 0; i < 1500; ++i) rules += fmt::format("r{} ::= \"a\" r{} | \"\"\n", i, i + 1);
  expect_texts(GrammarTexts(gbnf(rules + "r1500 ::= \"b\"?")), {"", "a", "aa"}, {"b", "ba"});
}

TEST(Choices, AreTakenWholeAndOnlyThey) {
  const auto choices = [](const std::vector<std::string>& all) {
    return choice_grammar(all, ByteSet().set());
  };
  expect_texts(GrammarTexts(choices({"yes", "yet", "no", "né"})), {"yes", "yet", "no", "né"},
               {"", "ye", "n", "yesno", "n\xC3"});
  expect_texts(GrammarTexts(choices({"a", "ab", "a"})), {"a", "ab"}, {"b", "aba"});
  EXPECT_EQ(error_of(choices({})), "there are 0 choices; from 1 to 4096 are taken");
  EXPECT_EQ(error_of(choices({"a", ""})), "a choice is empty");
  EXPECT_EQ(error_of(choice_grammar({"a"}, ByteSet())),
            "the choices cannot be used: the vocabulary can spell none of them, within 64 levels "
            "of nesting");
}

}  // namespace
}  // namespace kvick::text
