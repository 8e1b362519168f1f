#include "cli/terminal/help_text.h"

#include <gtest/gtest.h>

namespace kvick::cli {
namespace {

const std::vector<std::string> kCommands = {
    "run", "serve", "bench", "plan", "list", "--prompt", "--prompt-arithmetic"};

TEST(Nearest, LettersThatAreWrongSwappedMissingOrTooMany) {
  EXPECT_EQ(nearest("sevre", kCommands), "serve");
  EXPECT_EQ(nearest("rnu", kCommands), "run");
  EXPECT_EQ(nearest("benchh", kCommands), "bench");
  EXPECT_EQ(nearest("pln", kCommands), "plan");
  EXPECT_EQ(nearest("--promt", kCommands), "--prompt");
}

TEST(Nearest, TheBeginningOfALongName) {
  EXPECT_EQ(nearest("--prompt-ar", kCommands), "--prompt-arithmetic");
}

TEST(Nearest, NothingForAWordThatIsLikeNone) {
  EXPECT_EQ(nearest("frobnicate", kCommands), "");
  EXPECT_EQ(nearest("x", kCommands), "");
  EXPECT_EQ(nearest("run", {}), "");
}

TEST(Wrapped, LinesBreakBetweenWordsAndGoOnWhereTheyBegan) {
  EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
  EXPECT_EQ(wrapped("  one two three", 9), "  one two\n  three");
  EXPECT_EQ(wrapped("short\nas it is", 20), "short\nas it is");
}

TEST(Wrapped, AnEntryGoesOnBelowItsText) {
  EXPECT_EQ(wrapped("  bmc   rows in one piece", 17), "  bmc   rows in\n        one piece");
}

TEST(Wrapped, AWordLongerThanTheLineStaysWhole) {
  EXPECT_EQ(wrapped("a incomprehensible b", 6), "a\nincomprehensible\nb");
}

}  // namespace
}  // namespace kvick::cli
