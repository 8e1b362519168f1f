#include "server/answer/tool_calls.h"

#include <gtest/gtest.h>
#include <random>

#include "server/answer/written_calls.h"

namespace kvick::server {
namespace {

Tools two_tools() {
  Tools tools;
  tools.names = {"f", "g"};
  tools.choice = Tools::Choice::kAuto;
  return tools;
}

// Returns "content|name(arguments)|..." for a text that is pushed in pieces of piece_bytes bytes.
std::string found_in(std::string_view text, size_t piece_bytes, const Tools& tools = two_tools(),
                     bool whole = true) {
  ToolCallParser parser(tools);
  std::string content, calls;
  const auto add = [&](const ToolCallParser::Found& found) {
    content += found.content;
    for (const ToolCall& call : found.calls)
      calls += fmt::format("|{}({})", call.name, call.arguments);
  };
  for (size_t at = 0; at < text.size(); at += piece_bytes)
    add(parser.push(text.substr(at, piece_bytes)));
  add(parser.finish(whole));
  return content + calls;
}

struct Case {
  const char *text, *found;
};
constexpr Case kCases[] = {
    {"just text", "just text"},
    {"a < b <tool", "a < b <tool"},
    {R"(<tool_call>{"name":"f","arguments":{"x":1}}</tool_call>)", R"(|f({"x":1}))"},
    {"Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
     "<tool_call>{\"name\": \"g\"}</tool_call>\n",
     "Let me see.\n|f({})|g({})"},
    {R"(<tool_call>{"name":"f","arguments":{}})", "|f({})"},
    {R"(<tool_call>{"name":"h","arguments":{}}</tool_call> so)",
     R"(<tool_call>{"name":"h","arguments":{}}</tool_call> so)"},
    {"<tool_call>{broken</tool_call>", "<tool_call>{broken</tool_call>"},
    // Marks inside a string belong to it. After an unbalanced quote, the first mark ends the text.
    {R"(<tool_call>{"name":"f","arguments":{"x":"a\"</tool_call>\\"}}</tool_call>b)",
     R"(b|f({"x":"a\"</tool_call>\\"}))"},
    {R"(<tool_call>[{"name":"f","arguments":{"x":"</tool_call><tool_call>"}}]</tool_call>)",
     R"(|f({"x":"</tool_call><tool_call>"}))"},
    {R"(<tool_call>{"name":"f"</tool_call>"}</tool_call><tool_call>{"name":"g"}</tool_call>)",
     R"(<tool_call>{"name":"f"</tool_call>"}</tool_call>|g({}))"},
    {R"(<tool_call>{"name":"f}</tool_call><tool_call>{"name":"g"}</tool_call>)",
     R"(<tool_call>{"name":"f}</tool_call>|g({}))"},
    {R"({"name": "f", "parameters": {"x": [1, 2]}})", R"(|f({"x":[1,2]}))"},
    {R"( [{"name":"f"},{"name":"g","arguments":{"a":null}}] )", R"(|f({})|g({"a":null}))"},
    {R"({"answer": 42})", R"({"answer": 42})"},
    {R"([{"name":"f","arguments":"{\"x\": 1}"},{"name":"g","arguments":null}])",
     R"(|f({"x":1})|g({}))"},
    {R"({"name": "f", "arguments": "x"})", R"({"name": "f", "arguments": "x"})"},
    {R"({"name": "f", "arguments": 3})", R"({"name": "f", "arguments": 3})"},
    {"[f(x=1, y='a'), g()]", R"(|f({"x":1,"y":"a"})|g({}))"},
    {"<tool_call>[f(x=[1, (2,), {'k': None}], y=True)]</tool_call>",
     R"(|f({"x":[1,[2],{"k":null}],"y":true}))"},
    {"<tool_call>f(x=-1.5e3, y=false, z=\"it's\",)</tool_call>",
     R"(|f({"x":-1500.0,"y":false,"z":"it's"}))"},
    {"[f(x=\"a\\n\\x41\\u00e9\\ud83d\\ude00\\q\\\"\", y='''two\nlines''')]",
     "|f({\"x\":\"a\\nA\u00e9\U0001F600\\\\q\\\"\",\"y\":\"two\\nlines\"})"},
    {"[f(x=1), h()]", "[f(x=1), h()]"},
    {"[f(1)]", "[f(1)]"},
    {"[f(x=1]", "[f(x=1]"},
    {"[f(x='a)]", "[f(x='a)]"},
    {"[f(x=0x10)]", "[f(x=0x10)]"},
    {R"([f(x="\ud800")])", R"([f(x="\ud800")])"},
    {"[f(x=1)] or not", "[f(x=1)] or not"},
    {"{", "{"},
    {"", ""},
    {"  ", "  "},
};

TEST(ToolCalls, AreFoundHoweverTheTextIsCut) {
  for (const Case& one : kCases)
    for (const size_t bytes : {1, 2, 3, 7, 1000})
      EXPECT_EQ(found_in(one.text, bytes), one.found) << "in pieces of " << bytes;
}

// An answer that max_tokens cut off: the result if a call was required, and if not.
struct CutCase {
  const char *text, *required, *free;
};
constexpr CutCase kCutCases[] = {
    {"", "", ""},
    {" ", "", " "},
    {R"({"name)", "", R"({"name)"},
    {R"({"name": "f)", "", R"({"name": "f)"},
    {R"({"name": "f")", "|f()", R"({"name": "f")"},
    {R"({"name": "f", "arg)", "|f()", R"({"name": "f", "arg)"},
    {R"({"name": "f", "arguments": {"x": "a\")", R"(|f({"x": "a\"))",
     R"({"name": "f", "arguments": {"x": "a\")"},
    {R"({"name": "f", "arguments": {"x": 1})", R"(|f({"x": 1}))",
     R"({"name": "f", "arguments": {"x": 1})"},
    {R"({"name": "f", "arguments": {"x": 1}})", R"(|f({"x":1}))", R"(|f({"x":1}))"},
    {R"({"name": "other", "arguments": {"x")", "", R"({"name": "other", "arguments": {"x")"},
    {R"(So: <tool_call>{"name": "f", "arguments": {"x")", "", R"(So: |f({"x"))"},
    {R"(So: <tool_call>{"na)", "", "So: "},
    {R"(<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g", "argu)", "", R"(|f({})|g())"},
    {R"(<tool_call>{"name": "f", "arguments": {"x": "</tool_call> a)", "",
     R"(|f({"x": "</tool_call> a))"},
    {"So: <tool_c", "", "So: <tool_c"},
};

TEST(ToolCalls, MayHaveTheNameAsAKey) {
  const Tools tools = two_tools();
  ToolCallParser parser(tools, {.open = "<p>", .close = "</p>", .name_key = ""});
  const auto found = parser.push(R"(<p>[{"f": {"x": 1}}, {"g": {}}]</p> {"h": {}})");
  ASSERT_EQ(found.calls.size(), 2u);
  EXPECT_EQ(found.calls[0].name + found.calls[0].arguments, R"(f{"x":1})");
  EXPECT_EQ(found.calls[1].name + found.calls[1].arguments, "g{}");
}

TEST(ToolCalls, MayBeANameAndItsArguments) {  // GLM-4
  const Tools tools = two_tools();
  text::AnswerSyntax::Calls syntax;
  syntax.form = text::AnswerSyntax::Calls::Form::kNamed;
  syntax.open.clear(), syntax.close.clear();
  for (const bool cut : {false, true}) {
    ToolCallParser parser(tools, syntax);
    EXPECT_EQ(parser.push("\nf\n{\"x\"").content, "");
    const auto found = parser.push(cut ? ": " : ": 1}");
    EXPECT_EQ(found.content, "");
    const auto rest = parser.finish(true);
    EXPECT_EQ(rest.content, cut ? "\nf\n{\"x\": " : "");
    ASSERT_EQ(rest.calls.size(), cut ? 0u : 1u);
    if (!cut) EXPECT_EQ(rest.calls[0].name + rest.calls[0].arguments, R"(f{"x":1})");
  }
  ToolCallParser parser(tools, syntax);
  EXPECT_EQ(parser.push("f is").content, "f is");
  const Json calls = Json::parse(R"([{"function":{"name":"f","arguments":{"x":1}}}])");
  EXPECT_EQ(written_calls(calls, syntax), "f\n{\"x\":1}");
}

TEST(ToolCalls, AreWrittenWhereTheTemplateLeavesThemOut) {
  const Json messages = Json::parse(R"([{"role":"user","content":"q"},
      {"role":"assistant","content":"so","tool_calls":[
        {"function":{"name":"f","arguments":{"x":[1,null,"a\"b"],"y":{"k":true}}}},
        {"function":{"name":"g","arguments":{}}}]}])");
  text::AnswerSyntax::Calls syntax;
  EXPECT_EQ(with_written_calls(messages, syntax), messages);
  syntax.written = false;
  EXPECT_EQ(with_written_calls(messages, syntax)[1]["content"],
            "so\n<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":[1,null,\"a\\\"b\"],\"y\":{"
            "\"k\":true}}}</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>");
  syntax.form = text::AnswerSyntax::Calls::Form::kPython;
  const std::string python = with_written_calls(messages, syntax)[1]["content"];
  EXPECT_EQ(python,
            "so\n<tool_call>[f(x=[1, None, \"a\\\"b\"], y={\"k\": True}), g()]</tool_call>");
  EXPECT_EQ(found_in(python, 3), R"(so)"
                                 "\n"
                                 R"(|f({"x":[1,null,"a\"b"],"y":{"k":true}})|g({}))");
}

// The result is the same byte by byte and at once, and no text is lost: what is not a call is
// content.
TEST(ToolCalls, OfRandomPythonAreFoundHoweverTheTextIsCut) {
  constexpr const char* kPieces[] = {
      "[",  "]",           "f(",           "g",     "(", ")",   "x=",   "y", "=", ",", "'a'",
      "\"", "'",           "\\",           "\\u12", "1", "-.5", "True", "{", "}", ":", " ",
      "\n", "<tool_call>", "</tool_call>", "\xff"};
  size_t with_calls = 0;
  for (uint32_t seed = 0; seed < 10000; ++seed) {
    std::mt19937 random(seed);
    std::string text = "[f(x=";
    for (uint32_t n = random() % 6; n > 0; --n) text += kPieces[random() % std::size(kPieces)];
    if (seed % 2 == 0) text += ")]";
    const std::string found = found_in(text, text.size());
    ASSERT_EQ(found, found_in(text, 1)) << text;
    with_calls += found != text;
  }
  EXPECT_GT(with_calls, 50u);
  const std::string deep = "[f(x=" + std::string(100000, '[');
  EXPECT_EQ(found_in(deep, deep.size()), deep);
}

TEST(ToolCalls, ThatAreCutOffAreNoContent) {
  Tools required = two_tools();
  required.choice = Tools::Choice::kRequired;
  for (const CutCase& one : kCutCases)
    for (const size_t bytes : {1, 2, 3, 7, 1000}) {
      EXPECT_EQ(found_in(one.text, bytes, required, false), one.required) << one.text;
      EXPECT_EQ(found_in(one.text, bytes, two_tools(), false), one.free) << one.text;
    }
}

TEST(ToolCalls, EndAfterTheFirstWhereOnlyOneIsWanted) {
  Tools tools = two_tools();
  tools.parallel = false;
  EXPECT_EQ(found_in(R"([{"name":"f"},{"name":"g"}])", 100, tools), "|f({})");
}

TEST(ToolCalls, DoNotHoldBackTextThatCannotBecomeOne) {
  const Tools tools = two_tools();
  ToolCallParser parser(tools);
  EXPECT_EQ(parser.push("The answer").content, "The answer");
  EXPECT_EQ(parser.push(" is <to").content, " is ");
  EXPECT_EQ(parser.push("day>").content, "<today>");
  for (const char* text : {"[1] says", "[go](https://a.b)", "[f]", "[f x", "[[", "[{\"a\"", "{}",
                           "{\"answer\": 4", "{\"named\"", " {x"})
    EXPECT_EQ(ToolCallParser(tools).push(text).content, text);
  for (const char* text :
       {"[", "[ f", "[g (", "[{\"na", "{ \"arguments\": {", "{", "{\"type\": \""})
    EXPECT_EQ(ToolCallParser(tools).push(text).content, "");
  EXPECT_EQ(found_in("[1] <tool_call>{\"name\":\"f\"}</tool_call>", 1), "[1] |f({})");
}

}  // namespace
}  // namespace kvick::server
