#include "server/answer/template_messages.h"

#include <gtest/gtest.h>
#include <tuple>

#include "server/answer/offered_tools.h"

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
  EXPECT_EQ(template_messages(conversation(), Json(), {}), conversation());
}

TEST(TemplateMessages, HaveResultsAsTheUsersWhereTheTemplateRefusesThem) {
  text::AnswerSyntax syntax;
  syntax.messages.result_role.clear();
  const Json messages = template_messages(conversation(), Json(), syntax);
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[2]["role"], "user");
  EXPECT_EQ(messages[2]["content"],
            "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>\n\n"
            "and?");
  syntax.messages.result_role = "observation";
  EXPECT_EQ(template_messages(conversation(), Json(), syntax)[3]["role"], "observation");
}

// The description uses the form of the model's own calls.
TEST(TemplateMessages, TellOfToolsWhereTheTemplateDoesNot) {
  const Json tools =
      Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{}}}])");
  text::AnswerSyntax syntax;
  EXPECT_EQ(template_messages(conversation(), tools, syntax), conversation());
  syntax.messages.offers_tools = false;
  EXPECT_EQ(template_messages(conversation(), Json(), syntax), conversation());
  EXPECT_EQ(template_messages(conversation(), Json::array(), syntax), conversation());
  Json messages = template_messages(conversation(), tools, syntax);
  ASSERT_EQ(messages.size(), conversation().size() + 1);
  EXPECT_EQ(messages[0]["role"], "system");
  const std::string told = messages[0]["content"];
  EXPECT_NE(told.find(R"({"name":"f","parameters":{}})"), std::string::npos) << told;
  EXPECT_NE(told.find(R"(<tool_call>{"name":"NAME","arguments":{"ARGUMENT":"VALUE"}}</tool_call>)"),
            std::string::npos)
      << told;
  // After the system message's text, or before the user's text if there is no system message.
  Json with_system = conversation();
  const Json brief = {{"role", "system"}, {"content", "Be brief."}};
  with_system.insert(with_system.begin(), brief);
  EXPECT_EQ(template_messages(with_system, tools, syntax)[0]["content"], "Be brief.\n\n" + told);
  syntax.messages.has_system = false;
  EXPECT_EQ(template_messages(conversation(), tools, syntax)[0]["content"], told + "\n\nq");
  Json parts = conversation();
  parts[0]["content"] = Json::array({{{"type", "text"}, {"text", "q"}}});
  EXPECT_EQ(template_messages(parts, tools, syntax)[0]["content"][0]["text"], told);
}

TEST(TemplateMessages, TellOfCallsInEveryForm) {
  using Form = text::AnswerSyntax::Calls::Form;
  const Json tools = Json::parse(R"([{"type":"function","function":{"name":"f"}}])");
  text::AnswerSyntax::Calls calls{.open = "<", .close = ">"};
  const auto told = [&](Form form) {
    calls.form = form;
    return offered_tools(tools, calls);
  };
  const auto has = [](const std::string& text, std::string_view word) {
    return text.find(word) != std::string::npos;
  };
  EXPECT_TRUE(has(told(Form::kPython), "<[NAME(ARGUMENT=VALUE)]>"));
  calls.after_name = "\n";
  EXPECT_TRUE(has(told(Form::kNamed), "<NAME\n{\"ARGUMENT\":\"VALUE\"}>"));
  calls.key_open = "(", calls.key_close = ")[", calls.value_close = "]", calls.all_open = "{";
  EXPECT_TRUE(has(told(Form::kTagged), "{<NAME\n(ARGUMENT)[VALUE]>"));
  calls.name_key.clear();
  EXPECT_TRUE(has(told(Form::kJson), "{<{\"NAME\":{\"ARGUMENT\":\"VALUE\"}}>"));
}

TEST(TemplateMessages, HaveThoughtsWhereTheTemplateLooksForThem) {
  text::AnswerSyntax syntax;
  syntax.messages.thoughts = "thinking";
  Json messages = conversation();
  EXPECT_EQ(template_messages(messages, Json(), syntax)[1]["thinking"], "hm");
  messages[1]["content"] = "Let me see.";
  EXPECT_FALSE(template_messages(messages, Json(), syntax)[1].contains("thinking"));
  syntax.messages.thoughts = "content";
  EXPECT_EQ(to_text(template_messages(messages, Json(), syntax)[1]["content"]),
            R"([{"type":"thinking","thinking":"hm"},{"type":"text","text":"Let me see."}])");
}

TEST(TemplateMessages, HaveCallsInTheTypesThatTheTemplateWants) {
  text::AnswerSyntax syntax;
  syntax.messages.null_content = syntax.messages.text_arguments = true;
  const Json message = template_messages(conversation(), Json(), syntax)[1];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], R"({"x":1})");
}

TEST(TemplateVariables, HaveTheNearestEffortThatTheTemplateTakes) {
  const auto effort = [](const char* asked, std::string_view chat_template) {
    const Json variables = {{"reasoning_effort", asked}, {"a", 1}};
    const Json given = template_variables(variables, chat_template);
    EXPECT_EQ(given["a"], 1);
    return given["reasoning_effort"].get<std::string>();
  };
  // Qwen3.8's levels, GLM-5.2's, and a template that writes any level into the prompt.
  constexpr const char* kThree =
      "{%- if reasoning_effort not in ['xhigh', 'medium', 'low'] -%}{{ raise_exception('x') }}";
  constexpr const char* kTwo = R"({{ "a" if reasoning_effort == "high" else "max" }})";
  constexpr const char* kAny = R"({{ reasoning_effort | default("medium") }})";
  for (const auto& [chat_template, asked, given] :
       {std::tuple(kThree, "high", "xhigh"), std::tuple(kThree, "max", "xhigh"),
        std::tuple(kThree, "minimal", "low"), std::tuple(kThree, "none", "low"),
        std::tuple(kThree, "medium", "medium"), std::tuple(kTwo, "low", "high"),
        std::tuple(kTwo, "xhigh", "max"), std::tuple(kTwo, "max", "max"),
        std::tuple(kAny, "none", "low"), std::tuple(kAny, "minimal", "low"),
        std::tuple(kAny, "low", "low"), std::tuple(kAny, "high", "high"),
        std::tuple(kAny, "xhigh", "high"), std::tuple(kAny, "max", "high"),
        std::tuple(kAny, "any other", "any other")})
    EXPECT_EQ(effort(asked, chat_template), given) << asked << " in " << chat_template;
  EXPECT_EQ(effort("none", "{% if reasoning_effort == 'none' %}"), "none");
  const Json others = {{"b", 2}};
  EXPECT_EQ(template_variables(others, kThree), others);
  EXPECT_TRUE(template_variables(Json(), kThree).is_null());
}

}  // namespace
}  // namespace kvick::server
