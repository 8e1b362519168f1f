#include "server/answer/template_messages.h"

#include <gtest/gtest.h>

namespace kvick::server {
namespace {

Json conversation() {
  return Json::parse(R"([{"role":"user","content":"q"},
      {"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[
        {"function":{"name":"f","arguments":{"x":1}}},{"function":{"name":"g","arguments":{}}}]},
      {"role":"tool","content":"one"},{"role":"tool","content":"two"},
      {"role":"user","content":"and?"}])");
}

TEST(TemplateMessages, AreAsTheyCameWhereTheTemplateTakesThem) {
  EXPECT_EQ(template_messages(conversation(), {}), conversation());
}

TEST(TemplateMessages, HaveResultsAsTheUsersWhereTheTemplateRefusesThem) {
  text::AnswerSyntax syntax;
  syntax.messages.result_role.clear();
  const Json messages = template_messages(conversation(), syntax);
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[2]["role"], "user");
  EXPECT_EQ(messages[2]["content"],
            "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>\n\n"
            "and?");
  syntax.messages.result_role = "observation";
  EXPECT_EQ(template_messages(conversation(), syntax)[3]["role"], "observation");
}

TEST(TemplateMessages, HaveThoughtsWhereTheTemplateLooksForThem) {
  text::AnswerSyntax syntax;
  syntax.messages.thoughts = "thinking";
  Json messages = conversation();
  EXPECT_EQ(template_messages(messages, syntax)[1]["thinking"], "hm");
  messages[1]["content"] = "Let me see.";
  EXPECT_FALSE(template_messages(messages, syntax)[1].contains("thinking"));
  syntax.messages.thoughts = "content";
  EXPECT_EQ(to_text(template_messages(messages, syntax)[1]["content"]),
            R"([{"type":"thinking","thinking":"hm"},{"type":"text","text":"Let me see."}])");
}

TEST(TemplateMessages, HaveCallsInTheTypesThatTheTemplateWants) {
  text::AnswerSyntax syntax;
  syntax.messages.null_content = syntax.messages.text_arguments = true;
  const Json message = template_messages(conversation(), syntax)[1];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], R"({"x":1})");
}

}  // namespace
}  // namespace kvick::server
