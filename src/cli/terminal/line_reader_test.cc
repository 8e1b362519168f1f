#include "cli/terminal/line_reader.h"

#include <gtest/gtest.h>
#include <sstream>

namespace kvick::cli {
namespace {

TEST(PlainReader, GivesEachLineWithoutItsEnd) {
  std::istringstream in("one\n\ntwo");
  const auto reader = plain_reader(in, false);
  EXPECT_EQ(reader->read("> "), "one");
  EXPECT_EQ(reader->read("> "), "");
  EXPECT_EQ(reader->read("> "), "two");
  EXPECT_FALSE(reader->read("> ").has_value());
}

TEST(CommonBeginning, IsWhatAllBeginWith) {
  const std::vector<std::string> texts = {"/save ", "/set ", "/stats"};
  EXPECT_EQ(common_beginning(texts), "/s");
  EXPECT_EQ(common_beginning(std::vector<std::string>{"/bye"}), "/bye");
  EXPECT_EQ(common_beginning(std::vector<std::string>{"a", "b"}), "");
  EXPECT_EQ(common_beginning({}), "");
}

TEST(HistoryPath, FollowsTheXdgStateFolder) {
  setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(history_path(), "/state/kvick/history");
  setenv("XDG_STATE_HOME", "relative", 1);
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(history_path(), "/home/me/.local/state/kvick/history");
  unsetenv("XDG_STATE_HOME");
}

}  // namespace
}  // namespace kvick::cli
