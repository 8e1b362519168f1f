#include "cli/chat/message_lines.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace kvick::cli {
namespace {

std::vector<std::string> messages(const std::vector<std::string>& lines, bool blocks = true) {
  MessageLines reader(blocks);
  std::vector<std::string> out;
  for (const std::string& line : lines)
    if (auto message = reader.add(line)) out.push_back(*message);
  if (auto message = reader.finish()) out.push_back(*message);
  return out;
}

using Texts = std::vector<std::string>;

TEST(MessageLines, ALineIsAMessage) {
  EXPECT_EQ(messages({"one", "", "two"}), (Texts{"one", "", "two"}));
  EXPECT_EQ(messages({"pasted\ntext"}), (Texts{"pasted\ntext"}));
}

TEST(MessageLines, ABackslashGoesOnInTheNextLine) {
  EXPECT_EQ(messages({"one\\", "two\\", "three", "x"}), (Texts{"one\ntwo\nthree", "x"}));
  EXPECT_EQ(messages({"one\\"}), (Texts{"one\n"}));
}

TEST(MessageLines, QuotesHoldSeveralLines) {
  EXPECT_EQ(messages({"\"\"\"", "one", "", "two", "\"\"\"", "x"}), (Texts{"one\n\ntwo", "x"}));
  EXPECT_EQ(messages({"\"\"\"one", "two\"\"\""}), (Texts{"one\ntwo"}));
  EXPECT_EQ(messages({"\"\"\"one\"\"\""}), (Texts{"one"}));
  EXPECT_EQ(messages({"\"\"\"", "a\\", "\"\"\""}), (Texts{"a\\"}));
}

TEST(MessageLines, QuotesThatAreNotClosedEndWithTheInput) {
  EXPECT_EQ(messages({"\"\"\"", "one"}), (Texts{"one\n"}));
}

TEST(MessageLines, WithoutBlocksQuotesAreText) {
  EXPECT_EQ(messages({"\"\"\"", "x"}, false), (Texts{"\"\"\"", "x"}));
}

}  // namespace
}  // namespace kvick::cli
