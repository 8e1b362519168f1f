// Thoughts, channels and tool calls in the forms of chat templates, for any split of the text into
// pieces.

#include "server/answer/choice.h"

#include <gtest/gtest.h>

namespace kvick::server {
namespace {

using Calls = text::AnswerSyntax::Calls;

Tools weather() {
  Tools tools;
  tools.names = {"get", "f"};
  tools.choice = Tools::Choice::kAuto;
  tools.list = Json::parse(R"([{"type": "function", "function": {"name": "get", "parameters":
      {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])");
  return tools;
}

// Returns "(reasoning)content|name(arguments)...finish".
std::string parts_of(std::string_view text, size_t bytes, const ChoiceSyntax& syntax,
                     engine::Finish finish = engine::Finish::kEnd) {
  Choice choice(0, syntax);
  for (size_t at = 0; at < text.size(); at += bytes)
    choice.add({.text = std::string(text.substr(at, bytes))});
  engine::AnswerPiece last;
  last.finish = finish;
  choice.add(std::move(last));
  const ChoiceText& all = choice.all();
  std::string out = all.reasoning.empty() ? "" : "(" + all.reasoning + ")";
  out += all.content;
  for (const ToolCall& call : all.calls) out += "|" + call.name + call.arguments;
  return out + "." + all.finish_reason;
}

void expect_parts(std::string_view text, const std::string& expected, const ChoiceSyntax& syntax,
                  engine::Finish finish = engine::Finish::kEnd) {
  for (const size_t bytes : {1, 2, 3, 7, 1000})
    EXPECT_EQ(parts_of(text, bytes, syntax, finish), expected) << text << " in pieces of " << bytes;
}

TEST(AnswerParts, ThoughtsComeApart) {
  const text::AnswerSyntax usual;
  const ChoiceSyntax syntax = {.syntax = &usual};
  expect_parts("<think>\nWell, 2 < 3.\n\n</think>\n\nYes.", "(Well, 2 < 3.)Yes..stop", syntax);
  expect_parts("\n<think></think>Yes", "Yes.stop", syntax);
  expect_parts("Yes <think>not</think>", "Yes <think>not</think>.stop", syntax);
  expect_parts("<thin", "<thin.stop", syntax);
  expect_parts("<think>cut o", "(cut o).length", syntax, engine::Finish::kLength);
  expect_parts("", ".stop", syntax);
}

TEST(AnswerParts, ThePromptMayHaveOpenedTheThoughts) {
  const text::AnswerSyntax usual;
  expect_parts("Hm. </thi </think>\nYes", "(Hm. </thi)Yes.stop",
               {.syntax = &usual, .inside_thoughts = true});
  expect_parts("Hm.</think>Yes", "Yes.stop",
               {.syntax = &usual, .inside_thoughts = true, .drops_thoughts = true});
}

TEST(AnswerParts, CallsComeBehindThoughts) {
  const text::AnswerSyntax usual;
  const Tools tools = weather();
  expect_parts(
      "<think>It rains</think>\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
      "(It rains)|f{}.tool_calls", {.tools = &tools, .syntax = &usual});
}

TEST(AnswerParts, CallsMayEndThoughtsThatAreNotClosed) {
  const text::AnswerSyntax usual;
  const Tools tools = weather();
  const ChoiceSyntax syntax = {.tools = &tools, .syntax = &usual};
  const std::string f = "<tool_call>{\"name\": \"f\"}</tool_call>",
                    get = "<tool_call>{\"name\": \"get\"}</tool_call>",
                    other = "<tool_call>{\"name\": \"x\"}</tool_call>";
  expect_parts("<think>So " + f, "(So " + f + ")|f{}.tool_calls", syntax);
  expect_parts("<think>" + f + " or\n" + f + "\n" + get,
               "(" + f + " or\n" + f + "\n" + get + ")|f{}|get{}.tool_calls", syntax);
  for (const std::string& text : {f + " is a call", "So " + other, f + "\n" + other})
    expect_parts("<think>" + text, "(" + text + ").stop", syntax);
  expect_parts("<think>" + f, "(" + f + ").length", syntax, engine::Finish::kLength);
  expect_parts("<think>" + f + "</think>Yes", "(" + f + ")Yes.stop", syntax);
}

TEST(AnswerParts, ArgumentsBetweenMarksAreWhatTheSchemaSays) {
  const Tools tools = weather();
  text::AnswerSyntax coder;
  coder.calls = {.form = Calls::Form::kTagged,
                 .open = "<function=",
                 .close = "</function>",
                 .all_open = "<tool_call>",
                 .all_close = "</tool_call>",
                 .after_name = ">",
                 .key_open = "<parameter=",
                 .key_close = ">",
                 .value_close = "</parameter>"};
  const ChoiceSyntax syntax = {.tools = &tools, .syntax = &coder};
  const std::string call =
      "<tool_call>\n<function=get>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n3\n"
      "</parameter>\n</function>\n</tool_call>";
  expect_parts("Sure.\n" + call + "\n" + call,
               R"(Sure.
|get{"city":"12","days":3}|get{"city":"12","days":3}.tool_calls)",
               syntax);
  expect_parts("<tool_call>\n<function=f>\n</function>\n</tool_call>", "|f{}.tool_calls", syntax);
  expect_parts(
      "<function=get>\n<parameter=city>\na </function></tool_call></function> b\n</parameter>\n"
      "</function>",
      R"(|get{"city":"a </function></tool_call></function> b"}.tool_calls)", syntax);
  expect_parts("<function=get>\n<parameter=city>\na</function>\n<function=f></function>",
               "<function=get>\n<parameter=city>\na</function>\n|f{}.tool_calls", syntax);
  expect_parts("<tool_call> is a mark", "<tool_call> is a mark.stop", syntax);
  expect_parts("<function=other></function>", "<function=other></function>.stop", syntax);
}

TEST(AnswerParts, ArgumentsBetweenMarksAreTextIfAStringIsAllowed) {
  text::AnswerSyntax glm;
  glm.calls = {.form = Calls::Form::kTagged,
               .key_open = "<arg_key>",
               .key_close = "</arg_key>",
               .value_close = "</arg_value>"};
  const auto expect = [&](const char* schema, const std::string& text, const std::string& value) {
    Tools tools = weather();
    Json& parameters = tools.list[0]["function"]["parameters"];
    parameters["properties"]["city"] = Json::parse(schema);
    parameters["$defs"] = Json::parse(R"({"s": {"enum": ["12", "x"]}})");
    expect_parts("<tool_call>get<arg_key>city</arg_key>" + text + "</arg_value></tool_call>",
                 R"(|get{"city":)" + value + "}.tool_calls", {.tools = &tools, .syntax = &glm});
  };
  for (const char* schema : {R"({"anyOf": [{"type": "string"}, {"type": "null"}]})",
                             R"({"type": ["string", "null"]})"}) {
    expect(schema, "12", R"("12")");
    expect(schema, "true", R"("true")");
    expect(schema, R"({"a":1})", R"("{\"a\":1}")");
    expect(schema, R"("quoted")", R"("\"quoted\"")");
    expect(schema, "null", "null");
  }
  expect(R"({"anyOf": [{"type": "integer"}, {"type": "null"}]})", "12", "12");
  expect(R"({"type": ["string", "number"]})", "12", "12");
  expect(R"({"type": ["string", "integer"]})", "1.5", R"("1.5")");
  expect(R"({"oneOf": [{"type": "string"}, {"type": "array"}]})", "[1]", "[1]");
  expect(R"({"type": "string"})", "null", R"("null")");
  expect(R"({"const": "12"})", "12", R"("12")");
  expect(R"({"enum": ["a", 12]})", "12", "12");
  expect(R"({"$ref": "#/$defs/s"})", "12", R"("12")");
  expect(R"({"allOf": [{"$ref": "#/$defs/s"}], "default": "x"})", "12", R"("12")");
  expect(R"({"$ref": "#/properties/city"})", "12", "12");
}

TEST(AnswerParts, MarksBetweenArgumentsMayHaveOtherWhiteSpace) {
  const Tools tools = weather();
  text::AnswerSyntax glm;
  glm.calls = {.form = Calls::Form::kTagged,
               .key_open = "<arg_key>",
               .key_close = "</arg_key>\n<arg_value>",
               .value_close = "</arg_value>"};
  for (const char* between : {"", "\n", "\n\n "})
    expect_parts(std::string("<tool_call>get\n<arg_key>city</arg_key>") + between +
                     "<arg_value>a </arg_key> b</arg_value></tool_call>",
                 R"(|get{"city":"a </arg_key> b"}.tool_calls)", {.tools = &tools, .syntax = &glm});
  expect_parts("<tool_call>get<arg_key>city</arg_key>Rom</arg_value></tool_call>",
               "<tool_call>get<arg_key>city</arg_key>Rom</arg_value></tool_call>.stop",
               {.tools = &tools, .syntax = &glm});
}

TEST(AnswerParts, ASchemaMayBeAnything) {
  text::AnswerSyntax glm;
  glm.calls = {.form = Calls::Form::kTagged,
               .key_open = "<arg_key>",
               .key_close = "</arg_key>",
               .value_close = "</arg_value>"};
  for (const char* parameters :
       {"{}", R"({"properties": []})", R"({"properties": {"city": "x"}})", R"({"properties": 3})",
        R"({"properties": {"city": {"type": ["string"]}}})"}) {
    Tools tools = weather();
    tools.list[0]["function"]["parameters"] = Json::parse(parameters);
    expect_parts("<tool_call>get<arg_key>city</arg_key>Rom</arg_value></tool_call>",
                 R"(|get{"city":"Rom"}.tool_calls)", {.tools = &tools, .syntax = &glm});
  }
}

TEST(AnswerParts, NamesMayStandBeforeTheArguments) {
  const Tools tools = weather();
  text::AnswerSyntax mistral;
  mistral.calls = {
      .form = Calls::Form::kNamed, .open = "[TOOL_CALLS]", .close = "", .after_name = "[ARGS]"};
  expect_parts("[TOOL_CALLS]get[ARGS]{\"city\": \"Rom\"}[TOOL_CALLS]f[ARGS]{}",
               R"(|get{"city":"Rom"}|f{}.tool_calls)", {.tools = &tools, .syntax = &mistral});
  expect_parts("[TOOL_CALLS]f[CALL_ID]a1b2c3d4e[ARGS]{}", "|f{}.tool_calls",
               {.tools = &tools, .syntax = &mistral});
  text::AnswerSyntax kimi;
  kimi.calls = {.form = Calls::Form::kNamed,
                .open = "<|call|>functions.",
                .close = "<|/call|>",
                .all_open = "<|all|>",
                .all_close = "<|/all|>",
                .after_name = "<|args|>"};
  expect_parts(
      "<|all|><|call|>functions.f:0<|args|>{}<|/call|><|call|>functions.get:1<|args|>{}"
      "<|/call|><|/all|>",
      "|f{}|get{}.tool_calls", {.tools = &tools, .syntax = &kimi});
}

TEST(AnswerParts, ChannelsSayWhatAMessageIs) {
  const Tools tools = weather();
  text::AnswerSyntax harmony;
  harmony.channels = true;
  const ChoiceSyntax syntax = {.tools = &tools, .syntax = &harmony};
  expect_parts(
      "<|channel|>analysis<|message|>Simple.<|end|><|start|>assistant<|channel|>final"
      "<|message|>4 <|x",
      "(Simple.)4 <|x.stop", syntax);
  expect_parts(
      "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.get <|constrain|>json<|message|>{\"city\": \"Rom\"}<|call|>",
      R"((Look.)|get{"city":"Rom"}.tool_calls)", syntax);
  expect_parts("<|start|>assistant to=functions.f<|channel|>commentary<|message|>{}",
               "|f{}.tool_calls", syntax);
  expect_parts("<|channel|>commentary to=functions.f<|message|> <|call|>", "|f{}.tool_calls",
               syntax);
  expect_parts("plain text", "plain text.stop", syntax);
  expect_parts("<|channel|>commentary to=functions.get<|message|>{\"ci", R"(|get{"ci.length)",
               syntax, engine::Finish::kLength);
  expect_parts("<|channel|>commentary to=functions.rm<|message|>{}", "{}.stop", syntax);
}

// Wherever max_tokens or a stop text ends the answer, and for all marks of templates.
TEST(AnswerParts, ARequiredCallThatIsCutOffIsNeverContent) {
  constexpr std::string_view kArguments = R"({"city": "Rom } <think>", "days": 3})";
  const std::string whole = fmt::format(R"({{"name": "get", "arguments": {}}})", kArguments);
  Tools tools = weather();
  tools.choice = Tools::Choice::kRequired;
  text::AnswerSyntax usual, harmony;
  harmony.channels = true;
  for (const text::AnswerSyntax* syntax :
       std::vector<const text::AnswerSyntax*>{nullptr, &usual, &harmony})
    for (const engine::Finish finish : {engine::Finish::kLength, engine::Finish::kStop})
      for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
        SCOPED_TRACE(whole.substr(0, bytes));
        Choice choice(0, {.tools = &tools, .syntax = syntax});
        for (const char c : whole.substr(0, bytes)) {
          const ChoiceText added = choice.add({.text = std::string(1, c)});
          ASSERT_FALSE(says_something(added)) << added.content;
        }
        engine::AnswerPiece last;
        last.finish = finish;
        const ChoiceText added = choice.add(std::move(last));
        EXPECT_EQ(added.content + added.reasoning, "");
        EXPECT_EQ(added.finish_reason, engine::finish_name(finish));
        for (const ToolCall& call : added.calls) {
          EXPECT_EQ(call.name, "get");
          EXPECT_TRUE(kArguments.starts_with(call.arguments)) << call.arguments;
        }
        EXPECT_EQ(added.calls.size(),
                  bytes < std::string_view("{\"name\": \"get\"").size() ? 0U : 1U);
      }
}

}  // namespace
}  // namespace kvick::server
