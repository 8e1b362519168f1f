#include "cli/terminal/command_text.h"

#include <gtest/gtest.h>

namespace kvick::cli {
namespace {

TEST(FindCommand, GivesThePathToACommandAndNothingForAnUnknownOne) {
  const CommandText program = {.name = "kvick",
                               .commands = {{.name = "train", .commands = {{.name = "pca"}}}}};
  const std::vector<std::string> names = {"train", "pca"}, unknown = {"train", "pcb"};
  const std::vector<const CommandText*> path = find_command(program, names);
  ASSERT_EQ(path.size(), 3U);
  EXPECT_EQ(path[0], &program);
  EXPECT_EQ(path[2]->name, "pca");
  EXPECT_EQ(find_command(program, {}).size(), 1U);
  EXPECT_TRUE(find_command(program, unknown).empty());
}

TEST(Brief, IsTheFirstLineAndIsCutBetweenWords) {
  EXPECT_EQ(brief("one two\nthree", 20), "one two");
  EXPECT_EQ(brief("one two three", 9), "one two ...");
  EXPECT_EQ(brief("incomprehensible", 6), "incomp ...");
}

TEST(ListedNames, AreThoseOfLinesIndentedByTwo) {
  EXPECT_EQ(
      listed_names("how rows are kept:\n  bmc        grown\n  paged      blocks\n"
                   "    block  tokens\n  auto:loss=0.02,...: that one\n  all of them:\n    fast"),
      (std::vector<std::string>{"bmc", "paged", "auto"}));
  EXPECT_TRUE(listed_names("no list").empty());
}

}  // namespace
}  // namespace kvick::cli
