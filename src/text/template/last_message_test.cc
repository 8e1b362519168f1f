#include "text/template/last_message.h"

#include <gtest/gtest.h>

namespace kvick::text {
namespace {

using Json = nlohmann::ordered_json;

// Returns the prompt after the cut, or "!" and the error if it is refused.
std::string cut(const std::string& content, std::string prompt) {
  const Json messages = {{{"role", "user"}, {"content", "hi"}},
                         {{"role", "assistant"}, {"content", content}}};
  const auto done = cut_behind_last_message(messages, prompt);
  return done.ok() ? prompt : "!" + done.error().message;
}

TEST(LastMessage, IsWhatThePromptEndsWith) {
  EXPECT_EQ(cut("Paris is", "<u>hi</u><a>Paris is</a>\n"), "<u>hi</u><a>Paris is");
  EXPECT_EQ(cut("hi", "<u>hi</u><a>hi</a>"), "<u>hi</u><a>hi");
}

TEST(LastMessage, KeepsItsSpaceWhereTheTemplateDoes) {
  EXPECT_EQ(cut("Paris is ", "<a>Paris is </a>"), "<a>Paris is ");
  EXPECT_EQ(cut(" Paris is ", "<a>Paris is</a>"), "<a>Paris is");
  EXPECT_EQ(cut("\n Paris", "<a>Paris</a>"), "<a>Paris");
}

TEST(LastMessage, IsRefusedWhereThePromptHasItNot) {
  EXPECT_NE(cut("Paris", "<a>PARIS</a>").find("the chat template changes"), std::string::npos);
  for (const char* empty : {"", " \n"})
    EXPECT_NE(cut(empty, "<a></a>").find("no text"), std::string::npos);
  std::string prompt = "x";
  for (const Json& none :
       {Json::array(), Json({{{"role", "user"}}}), Json({{{"content", nullptr}}})})
    EXPECT_FALSE(cut_behind_last_message(none, prompt).ok());
  EXPECT_EQ(prompt, "x");
}

}  // namespace
}  // namespace kvick::text
