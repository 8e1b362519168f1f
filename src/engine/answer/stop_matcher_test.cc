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

TEST(StopMatcher, StopsAtTheStringThatIsCompleteFirst) {
  StopMatcher whole({"abcd", "bc"});
  EXPECT_EQ(whole.push("abcd"), "a");
  EXPECT_EQ(whole.matched(), "bc");
  StopMatcher included({"abcd", "bc"}, true);
  EXPECT_EQ(included.push("abcd"), "abc");
  StopMatcher same_end({"bc", "abc"});
  EXPECT_EQ(same_end.push("xabcd"), "x");
  EXPECT_EQ(same_end.matched(), "abc");
}

// The output is the text before the first stop string, however the text is cut into pieces.
TEST(StopMatcher, DoesNotDependOnHowTheTextIsCut) {
  std::mt19937 random(7);
  const std::vector<std::vector<std::string>> lists = {
      {"ab", "bba", "aaab"}, {"abca", "bc"}, {"bc", "abca"}, {"caab", "aa", "b"}, {"ab", "abc"}};
  for (int round = 0; round < 10'000; ++round) {
    const std::vector<std::string>& stops = lists[random() % lists.size()];
    std::string text;
    for (int i = 0; i < 12; ++i) text += "abc"[random() % 3];
    SCOPED_TRACE(text);
    // The stop string that is complete first; of several, the longest.
    size_t cut = text.size();
    std::string matched;
    for (size_t end = 1; end <= text.size() && matched.empty(); ++end)
      for (const std::string& stop : stops)
        if (std::string_view(text).substr(0, end).ends_with(stop) && stop.size() > matched.size()) {
          cut = end - stop.size();
          matched = stop;
        }
    const bool included = random() % 2 == 0;
    const size_t longest = 1 + random() % text.size();  // 1: byte by byte
    StopMatcher in_pieces(stops, included);
    std::string out;
    for (size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
      bytes = 1 + random() % longest;
      out += in_pieces.push(std::string_view(text).substr(at, bytes));
    }
    out += in_pieces.finish();
    EXPECT_EQ(in_pieces.matched(), matched);
    EXPECT_EQ(in_pieces.stopped(), !matched.empty());
    EXPECT_EQ(out, text.substr(0, cut) + (included ? matched : ""));
  }
}

}  // namespace
}  // namespace kvick::engine
