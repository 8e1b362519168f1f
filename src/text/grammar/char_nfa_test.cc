#include "text/grammar/char_nfa.h"

#include <gtest/gtest.h>
#include <random>
#include <regex>

#include "text/schema/test_schema.h"

namespace kvick::text {
namespace {

std::string with_pattern(const std::string& pattern) {
  return Json({{"type", "string"}, {"pattern", pattern}}).dump();
}

TEST(Pattern, IsFoundWhereTheStandardLibraryFindsIt) {
  const std::vector<std::string> patterns = {"abc",
                                             "^abc$",
                                             "^a|b$",
                                             "^(a|b)*c$",
                                             "a{2}",
                                             "^a{2,3}$",
                                             "^a{2,}b?$",
                                             "^[a-c]+$",
                                             "^[^a-c]*$",
                                             "^\\d+\\.\\d*$",
                                             "^\\w\\W\\s\\S$",
                                             "^(ab|a)(bc|c)?$",
                                             "^.a.$",
                                             "^(?:a|)b+?$",
                                             "^[\\d-]{1,3}$",
                                             "^[a\\]b]$",
                                             "^\\x61\\u0062$",
                                             "^(a*)*b$",
                                             "^a{0}b$",
                                             "",
                                             "^$",
                                             "^(a{1,2}b){2}$",
                                             "^\\t$",
                                             "^(?!a)[a-c]*$",
                                             "^(?=.*b)(?!.*c$)[a-d]+$",
                                             "^(?!^[-.]*$)[-.]?1*\\.?1*$",
                                             "^(?!a|b$)",
                                             "^(?=a).b|^(?!a)d$",
                                             "^(?!(?!a)).?$",
                                             "a(?=b)",
                                             "(?!a)[a-c]d",
                                             "^a*(?!ab)[a-d]*$",
                                             "^(a$|b)",
                                             "^(?:a|(b$|c))$",
                                             "^a?(?:1{0,1}$|(?=[1.]{1,3}$)1*\\.1{0,1}$)",
                                             "\\bab",
                                             "a\\b",
                                             "\\Bb",
                                             "a\\B",
                                             "\\b",
                                             "^\\B.?$",
                                             "^a\\b.",
                                             "\\b[ab1]{2}\\b",
                                             "^(?:a\\b|b\\B|[-.]\\b)*.?$",
                                             "^(?:\\b\\w+\\b[ .]?)*$",
                                             "^\\b\\ba\\b|\\B_$",
                                             "(\\ba$|b\\b)",
                                             "\\bb(?=[.1])",
                                             "^(?=a\\b)a.?$",
                                             "^(?!.*\\bab\\b)[ab. ]*$",
                                             "^(?=.*\\bb)(?!a\\b)[ab. ]*$",
                                             "a*(?=.)\\b[. ]",
                                             "\\ba(?!b\\B)[b.]*",
                                             "^[\"\\\\]+$"};
  const std::string letters = "abcd1.- _]\"\\\n\t";
  std::mt19937 random(1);
  for (const std::string& pattern : patterns) {
    SchemaTexts texts(with_pattern(pattern));
    const std::regex twin(pattern);
    for (int i = 0; i < 2000; ++i) {
      std::string text;
      for (size_t n = random() % 6; n > 0; --n) text += letters[random() % letters.size()];
      ASSERT_EQ(texts.takes(Json(text).dump()), std::regex_search(text, twin))
          << pattern << " in " << Json(text).dump();
    }
  }
}

// Where a look-ahead begins with a boundary, the standard library does not see the character before
// it.
TEST(Pattern, KnowsBoundariesAtTheBeginningOfALookAhead) {
  const struct {
    const char* pattern;
    std::vector<std::string> takes, refuses;
  } table[] = {
      {"[ab. ](?=\\b)[ab]", {".a", " b", "a.b", "aa b"}, {"", "a", "aa", "ab", "a.", ".1"}},
      {"[ab. ](?!\\b)[ab. ]$", {"aa", "ab", "..", "1. "}, {"", "a.", ".a", "b ", "a1", " b"}},
      {"(?=\\Bb)b", {"ab", "1b", ".ab", "b.bb"}, {"", "b", ".b", "b a", "b1"}},
      {"^.?(?!(?=\\b)a).?$", {"", "a", "aa", "ab", "1a", ". "}, {".a", " a", "aaa"}},
      {"^.?(?:b$|(?=\\B).$)",
       {"b", ".", " ", "aa", "1b", ".b", ". "},
       {"", "a", "a.", ".a", "abb"}},
      {"^.(?!\\B)|(?=a)\\bab$", {"a", "a.", ".a", ". ab"}, {"", ".", "..", "aa", "1ab."}},
      {"a(?=\\b|b)b?\\.", {"a.", "ab.", "1a."}, {"a", "ab", "aa", "a1.", "abb."}},
      {"\\b(?=\\Ba|b)", {"b", ".b", "b.", "ab b"}, {"", "a", "ab", "1b", "aa"}},
      {"\\b(?=\\b)a(?!\\B)$", {"a", ".a"}, {"", "aa", "ba", "a."}},
  };
  for (const auto& [pattern, takes, refuses] : table) {
    SchemaTexts texts(with_pattern(pattern));
    for (const std::string& text : takes)
      EXPECT_TRUE(texts.takes(Json(text).dump())) << pattern << " in '" << text << "'";
    for (const std::string& text : refuses)
      EXPECT_FALSE(texts.takes(Json(text).dump())) << pattern << " in '" << text << "'";
  }
}

TEST(Pattern, IgnoresCaseWhereTheStandardLibraryDoes) {
  const std::string letters = "abcABC1-_]";
  std::mt19937 random(2);
  for (const char* pattern : {"ab", "^A[b-c]+$", "^[^aB]*$", "^(?:a|B1)+-?$", "^[\\d_A-B]{2}$",
                              "^\\x41\\w\\W?$", "^[^\\WA]*$", "^a(?!B)[a-c]*$"}) {
    SchemaTexts texts(with_pattern(std::string("(?i)") + pattern));
    const std::regex twin(pattern, std::regex::icase);
    for (int i = 0; i < 2000; ++i) {
      std::string text;
      for (size_t n = random() % 6; n > 0; --n) text += letters[random() % letters.size()];
      ASSERT_EQ(texts.takes(Json(text).dump()), std::regex_search(text, twin))
          << pattern << " in " << Json(text).dump();
    }
  }
}

TEST(Pattern, IgnoresTheCaseOfAllLettersInAGroupOrEverywhere) {
  expect_texts(with_pattern("(?i)^\u00e9[\u03b1-\u03b3]\u00df$"),
               {"\"\u00e9\u03b2\u00df\"", "\"\u00c9\u0392\u1e9e\""},
               {"\"e\u03b2\u00df\"", "\"\u00e9\u03b4\u00df\""});
  // The sign of the unit kelvin, and the long s.
  expect_texts(with_pattern("(?i)^ks$"), {"\"KS\"", "\"\u212As\"", "\"k\u017F\""}, {"\"k\""});
  expect_texts(with_pattern("(?i)^i$"), {"\"I\"", "\"i\""}, {"\"\u0130\"", "\"\u0131\""});
  expect_texts(with_pattern("^(?i)ab|c"), {"\"AB\"", "\"aBx\"", "\"xC\""}, {"\"xab\"", "\"b\""});
  expect_texts(with_pattern("^a(?i:b(?:c))d$"), {"\"abcd\"", "\"aBCd\""}, {"\"Abcd\"", "\"abcD\""});
}

TEST(Pattern, IsAboutCharactersNotBytes) {
  expect_texts(with_pattern("^.$"), {"\"é\"", "\"€\"", "\"😀\"", R"("\"")"},
               {"\"\"", "\"éé\"", "\"\\n\""});
  expect_texts(with_pattern("^[à-ÿ€]{2}$"), {"\"éÿ\"", "\"€à\""},
               {"\"é\"", "\"éa\"", "\"é\xC4\x80\""});
  expect_texts(with_pattern("^[^é]$"), {"\"è\"", "\"a\"", "\"😀\""}, {"\"é\""});
  expect_texts(with_pattern("^\\u{1F600}$"), {"\"😀\""}, {"\"a\""});
  expect_texts(with_pattern("^\\p{Lu}[\\p{L}\\p{Nd}-]*\\P{L}$"), {"\"Éa9-é!\"", "\"Ж5\"", "\"A😀\""},
               {"\"éa!\"", "\"Éa\"", "\"É !\""});
}

TEST(Pattern, MayNameItsGroups) {
  expect_texts(with_pattern("^(?<year>\\d{2})-(?<month>\\d)$"), {"\"24-1\""},
               {"\"24\"", "\"year\""});
  expect_texts(with_pattern("^(?P<a>x)$"), {"\"x\""}, {"\"\""});
}

TEST(Pattern, GoesTogetherWithLengths) {
  expect_texts(R"({"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 6})",
               {"\"abab\"", "\"ababab\""}, {"\"\"", "\"ab\"", "\"abababab\"", "\"aba\""});
  expect_texts(R"({"type": "string", "pattern": "x", "minLength": 2})",
               {"\"ax\"", "\"xa\"", "\"aaxaa\""}, {"\"x\"", "\"aa\""});
}

TEST(Pattern, WhatIsWrongWithOneIsSaid) {
  const auto error = [](const std::string& pattern) {
    const auto parsed = parse_pattern(pattern);
    return parsed.ok() ? "no error" : parsed.error().message;
  };
  EXPECT_EQ(error("a(b"), "a group is not closed at byte 3 of 'a(b'");
  EXPECT_EQ(error("a)"), "')' closes nothing at byte 1 of 'a)'");
  EXPECT_EQ(error("[a"), "a class is not closed at byte 2 of '[a'");
  EXPECT_EQ(error("[b-a]"), "a range whose end is before its beginning at byte 4 of '[b-a]'");
  EXPECT_EQ(error("*a"), "a repetition of nothing at byte 0 of '*a'");
  EXPECT_EQ(error("a{2,1}"),
            "a repetition whose maximum is below its minimum at byte 6 of 'a{2,1}'");
  EXPECT_EQ(error("a{1001}"), "a repetition of more than 1000 at byte 7 of 'a{1001}'");
  EXPECT_EQ(error("a{x}"), "'{' without a count (write \\{ for the character) at byte 2 of 'a{x}'");
  EXPECT_EQ(error("^(?<=a)"), "a look-around or a flag is not supported at byte 1 of '^(?<=a)'");
  EXPECT_EQ(error("(a(?=b))c"),
            "a look-around or a flag is not supported at byte 2 of '(a(?=b))c'");
  EXPECT_EQ(error("^a(?!^b)"),
            "'^' other than at the beginning is not supported at byte 5 of '^a(?!^b)'");
  EXPECT_EQ(error("^(?!a"), "a group is not closed at byte 5 of '^(?!a'");
  std::string looks = "^";
  for (int i = 0; i < 9; ++i) looks += "(?!a)";
  EXPECT_EQ(error(looks), "one more look-ahead is not supported at byte 41 of '" + looks + "'");
  EXPECT_EQ(error("^(?!(a|b)*a(a|b){20})"), "a look-ahead becomes too large; use a simpler one");
  EXPECT_EQ(error("a^"), "'^' other than at the beginning is not supported at byte 1 of 'a^'");
  EXPECT_EQ(error("(a$)b"), "'$' within a group is not supported at byte 2 of '(a$)b'");
  EXPECT_EQ(error("(a$)$b"), "'$' is not at the end at byte 5 of '(a$)$b'");
  EXPECT_EQ(error("a$b"), "'$' is not at the end at byte 2 of 'a$b'");
  EXPECT_EQ(error("(?s)a"), "a look-around or a flag is not supported at byte 0 of '(?s)a'");
  EXPECT_EQ(error("a(?i)"), "a look-around or a flag is not supported at byte 1 of 'a(?i)'");
  EXPECT_EQ(error("a|^(?i)b"), "a look-around or a flag is not supported at byte 3 of 'a|^(?i)b'");
  EXPECT_EQ(error("(?i)\\p{Lu}"), "\\p beside (?i) is not supported at byte 10 of '(?i)\\p{Lu}'");
  EXPECT_EQ(error("\\b+x"), "a repetition of nothing at byte 2 of '\\b+x'");
  EXPECT_EQ(error("(a\\b|b){600}c{1000}"),
            "its word boundaries make it too large; use smaller repetitions");
  EXPECT_EQ(error("(a)\\1"), "\\1 is not supported at byte 4 of '(a)\\1'");
  EXPECT_EQ(error("\\p{Greek}"), "\\p is not supported at byte 1 of '\\p{Greek}'");
  EXPECT_EQ(error("\\p{Q}"), "\\p is not supported at byte 1 of '\\p{Q}'");
  EXPECT_EQ(error("\\u12"), "an escape needs hexadecimal digits at byte 4 of '\\u12'");
  EXPECT_EQ(error("\\ud800"), "half a character is not supported at byte 6 of '\\ud800'");
  EXPECT_EQ(error("a\\"), "a backslash is the last character at byte 2 of 'a\\'");
  EXPECT_EQ(error("\xFF"), "it is not UTF-8");
  EXPECT_EQ(error(std::string(60, '(') + std::string(60, ')')).substr(0, 31),
            "groups are nested too deeply at");
}

}  // namespace
}  // namespace kvick::text
