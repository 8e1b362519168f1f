#include "cli/terminal/markdown.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace kvick::cli {
namespace {

// Returns the text with styles as letters in braces: {b} bold, {i} italic, {c} code, {d} dim, {}
// plain.
std::string named(std::string text) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"\033[0m", "{}"},     {"\033[0;1m", "{b}"}, {"\033[0;3m", "{i}"},    {"\033[0;1;3m", "{bi}"},
      {"\033[0;36m", "{c}"}, {"\033[0;2m", "{d}"}, {"\033[0;1;36m", "{bc}"}};
  for (const auto& [code, name] : names)
    for (size_t at = 0; (at = text.find(code, at)) != std::string::npos;)
      text.replace(at, code.size(), name);
  return text;
}

std::string shown(std::string_view text) {
  MarkdownWriter writer(true);
  const std::string now = writer.push(text);
  return named(now + writer.finish());
}

TEST(Markdown, PlainTextIsPrintedAsItIs) {
  for (const char* text :
       {"", "hello", "two\nlines\n", "  indented", "2 * 3 * 4", "2*3*4", "snake_case_name", "a - b",
        "#hashtag", "-5 degrees", "C:\\dir", "---", "\xC3\xA4\xE2\x82\xAC"})
    EXPECT_EQ(shown(text), text);
}

TEST(Markdown, EmphasisBecomesAStyle) {
  EXPECT_EQ(shown("a **b** c"), "a {b}b{} c");
  EXPECT_EQ(shown("*i* and _i_"), "{i}i{} and {i}i{}");
  EXPECT_EQ(shown("__b__."), "{b}b{}.");
  EXPECT_EQ(shown("***both***"), "{bi}both{}");
  EXPECT_EQ(shown("**b *bi* b**"), "{b}b {bi}bi{b} b{}");
  EXPECT_EQ(shown("\\*stars\\*"), "*stars*");
}

TEST(Markdown, CodeIsNotLookedInto) {
  EXPECT_EQ(shown("`a*b*c` x"), "{c}a*b*c{} x");
  EXPECT_EQ(shown("``a`b``"), "{c}a`b{}");
  EXPECT_EQ(shown("```py\nx = *y*\n# z\n```\nok"), "{d}```py{c}\nx = *y*\n# z\n{d}```{}\nok");
}

TEST(Markdown, HeadingsAndListsLoseTheirMarks) {
  EXPECT_EQ(shown("# Title\ntext"), "{b}Title{}\ntext");
  EXPECT_EQ(shown("### `x`\n"), "{bc}x{}\n");
  EXPECT_EQ(shown("- one\n  * two"), "\xE2\x80\xA2 one\n  \xE2\x80\xA2 two");
  EXPECT_EQ(shown("1. one"), "1. one");
  EXPECT_EQ(shown("* *i*"), "\xE2\x80\xA2 {i}i{}");
}

TEST(Markdown, AMarkThatNothingClosesEndsWithItsLine) {
  EXPECT_EQ(shown("**open\nnext"), "{b}open{}\nnext");
  EXPECT_EQ(shown("`open\nnext"), "{c}open{}\nnext");
}

TEST(Markdown, ControlCharactersDoNotReachTheTerminal) {
  EXPECT_EQ(shown("a\033[2Jb\007\rc\td"), "a[2Jbc\td");
}

TEST(Markdown, TextIsHeldBackOnlyWhereAMarkMayBegin) {
  MarkdownWriter writer(true);
  EXPECT_EQ(writer.push("word"), "word");
  EXPECT_EQ(writer.push(" and"), " and");
  EXPECT_EQ(writer.push(" *"), " ");
  EXPECT_EQ(named(writer.push("i")), "{i}i");
  EXPECT_EQ(named(writer.finish()), "{}");
}

// The reference pushes the whole text at once.
TEST(Markdown, PiecesOfAnySizeGiveTheSame) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<std::string> parts = {"*", "**",      "_",        "`",  "```", "\n",
                                          " ", "a",       "bc",       "# ", "- ",  "\\",
                                          "#", "\n```\n", "\xC3\xA4", "1"};
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (unsigned n = random() % 20; n > 0; --n) text += parts[random() % parts.size()];
    MarkdownWriter pieces(true);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::min<size_t>(1 + random() % 4, text.size() - at);
      out += pieces.push(std::string_view(text).substr(at, size));
      at += size;
    }
    EXPECT_EQ(named(out + pieces.finish()), shown(text)) << text;
  }
}

}  // namespace
}  // namespace kvick::cli
