#include "engine/answer/stop_matcher.h"

#include <gtest/gtest.h>
#include <random>

namespace kvick::engine {
namespace {

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("abcE"), "abc");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("X"), "ENX");
  EXPECT_EQ(matcher.push("yEND and more"), "y");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("later"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, GivesTheHeldTextAtTheEnd) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.push("full sto"), "full ");
  EXPECT_EQ(matcher.finish(), "sto");
}

TEST(StopMatcher, CutsBehindTheStopWhereItIsIncluded) {
  StopMatcher matcher({"END", "ENDE"}, true);
  EXPECT_EQ(matcher.push("abEN"), "ab");
  EXPECT_EQ(matcher.push("DEx"), "END");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, IgnoresEmptyStops) {
  StopMatcher matcher({""});
  EXPECT_EQ(matcher.push("text"), "text");
  EXPECT_FALSE(matcher.stopped());
}

// The output is the text before the first stop string, however the text is cut into pieces.
TEST(StopMatcher, DoesNotDependOnHowTheTextIsCut) {
  std::mt19937 random(7);
  const std::vector<std::string> stops = {"ab", "bba", "aaab"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += "abc"[random() % 3];
    // The stop string that is complete first; of several, the longest.
    size_t cut = text.size();
    bool found = false;
    for (size_t end = 1; end <= text.size() && !found; ++end)
      for (const std::string& stop : stops)
        if (std::string_view(text).substr(0, end).ends_with(stop)) {
          cut = std::min(cut, end - stop.size());
          found = true;
        }
    StopMatcher one_by_one(stops);
    std::string out;
    for (const char c : text) out += one_by_one.push({&c, 1});
    out += one_by_one.finish();
    EXPECT_EQ(one_by_one.stopped(), found) << text;
    EXPECT_EQ(out, text.substr(0, cut)) << text;
  }
}

}  // namespace
}  // namespace kvick::engine
