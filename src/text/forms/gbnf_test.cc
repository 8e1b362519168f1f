#include "text/forms/gbnf.h"

#include <gtest/gtest.h>
#include <tuple>

#include "text/forms/test_forms.h"

namespace kvick::text {
namespace {

TEST(Gbnf, TakesWhatItsRulesSay) {
  expect_texts(GrammarTexts(gbnf("root ::= \"yes\" | \"no\"")), {"yes", "no"},
               {"", "ye", "yesno", "maybe"});
  expect_texts(GrammarTexts(gbnf(R"G(
# a sum, over several lines
root ::= term ("+" term)*   # of terms
term ::=
  number
  | "(" root ")"
number ::= "0" | [1-9] [0-9]{0,2}
)G")),
               {"0", "12+3", "(1+(2+3))+999"}, {"", "01", "1+", "(1", "1000", "1)"});
  expect_texts(GrammarTexts(gbnf("root ::= (\"a\" | ) [^b-d\\]]? .+")), {"ax", "e\n", "é€", "aab"},
               {""});
}

TEST(Gbnf, CountsItsRepetitions) {
  const auto texts = [](const char* counts) {
    return GrammarTexts(gbnf(fmt::format("root ::= \"ab\"{} \"c\"", counts)));
  };
  expect_texts(texts("{2}"), {"ababc"}, {"abc", "abababc", "abab"});
  expect_texts(texts("{1,}"), {"abc", "ababababc"}, {"c"});
  expect_texts(texts("{,2}"), {"c", "abc", "ababc"}, {"abababc"});
  expect_texts(texts("{1,2}"), {"abc", "ababc"}, {"c", "abababc"});
  expect_texts(texts("{0}"), {"c"}, {"abc"});
  expect_texts(texts("{ 0 , 1 }"), {"c", "abc"}, {"ababc"});
  expect_texts(texts("*"), {"c", "abc", "ababc"}, {"ab"});
  expect_texts(texts("+"), {"abc", "ababc"}, {"c"});
  expect_texts(GrammarTexts(gbnf("root ::= [a-z]{0,2000}")), {"", std::string(2000, 'q')},
               {std::string(2001, 'q')});
  expect_texts(GrammarTexts(gbnf("root ::= ((\"a\"?)*)* \"b\"")), {"b", "aaab"}, {"a", "bb"});
}

TEST(Gbnf, ReadsEscapesAndCharactersBeyondAscii) {
  expect_texts(GrammarTexts(gbnf(R"(root ::= "\"\\\n\t\x41\u00e9\U0001F600é")")),
               {"\"\\\n\tA\u00e9\U0001F600é"}, {"\"\\nA"});
  expect_texts(GrammarTexts(gbnf(R"(root ::= [à-ÿ€\-\x30-\x39]{2})")), {"é€", "-7", "00"},
               {"é", "a7", "\xC3\xC3", "\xE2\x82\xAC"});
  GrammarTexts texts(gbnf("root ::= [^a]"));
  EXPECT_TRUE(texts.begins("\xF0\x9F"));
  EXPECT_FALSE(texts.begins("\xFF") || texts.begins("\xC0") || texts.begins("\xED\xA0"));
}

TEST(Gbnf, FollowsRulesThatRepeatAtTheirEndsForever) {
  GrammarTexts texts(gbnf("root ::= item | item \",\" root\nitem ::= [0-9]"));
  std::string list = "1";
  for (int i = 0; i < 500; ++i) list += ",2";
  EXPECT_TRUE(texts.takes(list));
}

TEST(Gbnf, EndsBracketsThatItLetsOpen) {
  GrammarTexts texts(gbnf("root ::= \"(\" root \")\" | \"x\""));
  std::string open;
  while (texts.begins(open + "(") && open.size() < 1000) open += '(';
  EXPECT_GE(open.size(), 60U);
  EXPECT_LT(open.size(), 1000U);
  EXPECT_TRUE(texts.takes(open + "x" + std::string(open.size(), ')')));
}

TEST(Gbnf, SaysWhatIsWrongAndWhere) {
  const std::string read = "the grammar cannot be read: ";
  const auto error = [](std::string_view text) { return error_of(gbnf(text)); };
  EXPECT_EQ(error(""), read + "there is no rule 'root', where answers begin");
  EXPECT_EQ(error("root = \"a\""),
            read + "line 1, column 1: a rule begins with its name and '::='");
  EXPECT_EQ(error("root ::= \"a\nb"), read + "line 1, column 10: a text in quotes is not closed");
  EXPECT_EQ(error("root ::= é\n"), read + "line 1, column 10: 'é' begins no part of a rule");
  EXPECT_EQ(error("root ::= a\n\n  \"é\" b"),
            read + "there is no rule 'a', which line 1, column 10 asks for");
  EXPECT_EQ(error("root ::= \"é\" )"), read + "line 1, column 14: ')' closes nothing");
  EXPECT_EQ(error("root ::= (\"a\""), read + "line 1, column 10: a group is not closed");
  EXPECT_EQ(error("root ::=\n [a"), read + "line 2, column 2: a class is not closed");
  EXPECT_EQ(error("root ::= [b-a]"),
            read + "line 1, column 11: a range whose end is before its beginning");
  EXPECT_EQ(error("root ::= \"a\"**"),
            read +
                "line 1, column 14: a repetition of a repetition; put the inner one in "
                "parentheses");
  EXPECT_EQ(error("root ::= \"a\"{2,1}"),
            read + "line 1, column 13: a repetition whose maximum is below its minimum");
  EXPECT_EQ(error("root ::= \"a\"{2001}"),
            read + "line 1, column 13: a repetition of more than 2000");
  EXPECT_EQ(error("root ::= \"a\"{x}"),
            read + "line 1, column 14: a repetition needs a count, as in {2,5}");
  EXPECT_EQ(error("root ::= \"a\"{1"),
            read + "line 1, column 15: '}' is missing behind the counts of a repetition");
  EXPECT_EQ(error("root ::= \"\\q\""),
            read + "line 1, column 12: a backslash with nothing that it escapes");
  EXPECT_EQ(error("root ::= \"\\x4\""),
            read + "line 1, column 14: an escape needs 1 more hexadecimal digits of a character");
  EXPECT_EQ(error("root ::= \"\\ud800\""),
            read + "line 1, column 17: an escape stands for no character");
  EXPECT_EQ(error("root ::= <think>"),
            read +
                "line 1, column 10: tokens in a grammar are not supported; write their text in "
                "quotes");
  EXPECT_EQ(error("root ::= \"a\"\nroot ::= \"b\""),
            read + "line 2, column 1: the rule 'root' is there already (line 1, column 1)");
  EXPECT_EQ(error("\xFF"), read + "it is not UTF-8");
}

TEST(Gbnf, KeepsToItsLimits) {
  const auto error = [](std::string_view text) { return error_of(gbnf(text)); };
  EXPECT_NE(error("root ::= " + std::string(60, '(') + "\"a\"" + std::string(60, ')'))
                .find("nested more than 50 deep"),
            std::string::npos);
  EXPECT_NE(error("root ::= (((\"a\"{2000}){2000}){2000}){2000}").find("becomes too large"),
            std::string::npos);
  EXPECT_NE(error(std::string(Gbnf::kMostBytes + 1, ' ')).find("at most 65536"), std::string::npos);
  std::string many = "root ::= \"a\"\n";
  for (size_t i = 0; i < Gbnf::kMostRules; ++i) many += fmt::format("r{} ::= \"a\"\n", i);
  EXPECT_NE(error(many).find("more than 2048 rules"), std::string::npos);
  std::string items = "root ::= [";
  for (size_t i = 0; i <= Gbnf::kMostClassItems; ++i) items += 'a';
  EXPECT_NE(error(items + "]").find("more than 1000 parts"), std::string::npos);
}

// Each rule calls the next one twice, followed by different rules: 2^60 ways before the first byte.
TEST(Gbnf, RefusesMoreWaysToGoOnThanItCanFollow) {
  for (const auto& [x, y, last] :
       {std::tuple("\"x\"", "\"y\"", "\"z\""), std::tuple("e", "f", "\"\"")})
    for (const char* before : {"", "\"a\" "}) {
      std::string text = fmt::format("root ::= {}r1\ne ::= \"\"\nf ::= \"\"\n", before);
      for (int i = 1; i < 60; ++i)
        text += fmt::format("r{0} ::= r{1} {2} | r{1} {3}\n", i, i + 1, x, y);
      const std::string said = error_of(gbnf(text + "r60 ::= " + last));
      EXPECT_NE(said.find("ways to go on in one place"), std::string::npos) << said;
    }
}

TEST(Gbnf, CountsClassesOfNothing) {
  std::string text = "root ::= ((\"a\"";
  for (int i = 0; i < 5000; ++i) text += "|[]";
  const std::string said = error_of(gbnf(text + "){2000}){2000}"));
  EXPECT_NE(said.find("becomes too large"), std::string::npos) << said;
}

TEST(Gbnf, RefusesRulesThatBeginWithThemselves) {
  const auto error = [](std::string_view text) { return error_of(gbnf(text)); };
  EXPECT_EQ(error("root ::= \"a\" x\nx ::= x \"b\" | \"c\""),
            "the grammar cannot be used: its rule 'x' at line 2, column 1 begins with itself; "
            "write it as a repetition, as in a ::= b (\"+\" b)*");
  for (const char* text :
       {"root ::= root", "root ::= a\na ::= b\nb ::= a \"x\" | \"y\"",
        "root ::= e root | \"a\"\ne ::= \"b\"?", "root ::= e* root | \"a\"\ne ::= \"b\""})
    EXPECT_NE(error(text).find("begins with itself"), std::string::npos) << text;
  EXPECT_EQ(error("root ::= \"a\" root"),
            "the grammar cannot be used: no text matches it, within 64 levels of nesting");
}

}  // namespace
}  // namespace kvick::text
