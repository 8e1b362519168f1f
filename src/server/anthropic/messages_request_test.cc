// Anthropic's requests as chat requests, and the errors of invalid ones.

#include "server/anthropic/messages_request.h"

#include <gtest/gtest.h>

#include "server/testing/claude_code.h"
#include "server/testing/requests.h"

namespace kvick::server {
namespace {

constexpr const char* kUser = R"({"role":"user","content":"Hi"})";

ApiResult<ChatRequest> parse(const std::string& body) {
  const auto json = parse_json(body);
  EXPECT_TRUE(json.ok()) << body;
  UnknownFields unknown(true);
  return parse_messages_request(*json, unknown);
}

ChatRequest taken(const std::string& body) {
  auto request = parse(body);
  EXPECT_TRUE(request.ok()) << request.error().message;
  return *std::move(request);
}

// Returns a request with one user message and further fields: ",\"x\":1".
std::string with(std::string_view fields) {
  return fmt::format(R"({{"max_tokens":5,"messages":[{}]{}}})", kUser, fields);
}

// Returns a request with these messages.
std::string of(std::string_view messages) {
  return fmt::format(R"({{"max_tokens":5,"messages":[{}]}})", messages);
}

struct Wrong {
  std::string body;
  const char* param;
  std::vector<const char*> says = {"must be"};
};

void expect_wrong(const std::vector<Wrong>& table) {
  for (const Wrong& one : table) {
    SCOPED_TRACE(one.body);
    const auto request = parse(one.body);
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().status, 400U);
    EXPECT_EQ(request.error().param, one.param);
    EXPECT_EQ(request.error().message.find('\n'), std::string::npos);
    for (const char* words : one.says)
      EXPECT_NE(request.error().message.find(words), std::string::npos) << request.error().message;
  }
}

TEST(MessagesRequest, ReadsHowToGenerate) {
  const ChatRequest request = taken(with(
      R"(,"model":"m","stream":true,"temperature":0.5,"top_p":0.25,"top_k":40,
      "stop_sequences":["a","b"],"metadata":{"user_id":"u"},"service_tier":"auto","speed":"standard",
      "cache_control":{"type":"ephemeral"},"kv":{"strategy":"paged:block=16","type":"q8"},
      "spec":"lookup:most=5","cache_salt":"s","priority":-3,"seed":7,"ignore_eos":true)"));
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.stream && request.ignore_end);
  EXPECT_EQ(request.max_tokens, 5U);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_p, 0.25F);
  EXPECT_EQ(request.sampling.top_k, 40U);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.kv->spec.name, "paged");
  EXPECT_EQ(request.spec->way, "lookup");
  EXPECT_EQ(request.salt, "s");
  EXPECT_EQ(request.priority, -3);
  EXPECT_EQ(request.seed, 7U);
}

TEST(MessagesRequest, HasTheSystemsTextInFront) {
  EXPECT_EQ(taken(with(R"(,"system":"Be kind.")")).messages,
            Json::parse(R"([{"role":"system","content":"Be kind."},
                            {"role":"user","content":"Hi"}])"));
  EXPECT_EQ(taken(with(R"(,"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}])"))
                .messages[0]["content"],
            "a\nb");
  for (const char* nothing : {R"(,"system":"")", R"(,"system":[])", R"(,"system":null)"})
    EXPECT_EQ(taken(with(nothing)).messages.size(), 1U) << nothing;
}

TEST(MessagesRequest, MakesOneMessageOfThoseOfOneRole) {
  const ChatRequest request =
      taken(of(R"({"role":"system","content":"s"},{"role":"user","content":"a"},
      {"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":""}]},
      {"role":"assistant","content":"c"},{"role":"assistant","content":"d"},
      {"role":"system","content":"late"},{"role":"user","content":"e"})"));
  EXPECT_EQ(request.messages, Json::parse(R"([{"role":"system","content":"s"},
      {"role":"user","content":"a\nb"},{"role":"assistant","content":"c\nd"},
      {"role":"user","content":"late\ne"}])"));
  EXPECT_EQ(request.end, engine::ChatEnd::kNewTurn);
}

TEST(MessagesRequest, GoesOnWithTheAssistantsLastMessage) {
  const ChatRequest request =
      taken(of(R"({"role":"user","content":"Hi"},{"role":"assistant","content":"He"})"));
  EXPECT_EQ(request.end, engine::ChatEnd::kLastMessage);
  EXPECT_EQ(request.messages.size(), 2U);
  // An empty last message of the assistant is a new turn.
  for (const char* empty :
       {R"("")", "[]", R"([{"type":"text","text":""}])", R"([{"type":"thinking","thinking":""}])",
        R"([{"type":"redacted_thinking","data":"x"}])"}) {
    const ChatRequest begins = taken(of(fmt::format(
        R"({{"role":"user","content":"Hi"}},{{"role":"assistant","content":{}}})", empty)));
    EXPECT_EQ(begins.end, engine::ChatEnd::kNewTurn) << empty;
    EXPECT_EQ(begins.messages.size(), 1U) << empty;
  }
}

TEST(MessagesRequest, TakesWhatClaudeCodeSends) {
  UnknownFields unknown(false);
  const auto parsed = parse_messages_request(Json::parse(kClaudeCode), unknown);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->messages, Json::parse(R"([
    {"role": "system", "content": "You write programs.\nBe brief."},
    {"role": "user", "content": "<system-reminder>It is Friday.</system-reminder>\nWhat is here?"},
    {"role": "assistant", "content": "I look.", "reasoning_content": "I list them.", "tool_calls": [
      {"id": "call00000", "type": "function",
       "function": {"name": "Bash", "arguments": {"command": "ls"}}},
      {"id": "call00001", "type": "function",
       "function": {"name": "Read", "arguments": {"file_path": "/a"}}}]},
    {"role": "tool", "tool_call_id": "call00000", "name": "Bash", "content": "a\nb"},
    {"role": "tool", "tool_call_id": "call00001", "name": "Read", "content": "Error: no such file"},
    {"role": "user", "content": "Go on."}])"))
      << to_text(parsed->messages);
  EXPECT_EQ(parsed->tools.names, (std::vector<std::string>{"Bash", "Read"}));
  EXPECT_EQ(parsed->variables["tools"][1]["function"]["parameters"]["required"],
            Json::parse(R"(["file_path"])"));
  EXPECT_EQ(parsed->variables["enable_thinking"], true);
  EXPECT_EQ(parsed->variables["reasoning_effort"], "xhigh");
  EXPECT_EQ(parsed->max_tokens, 32000U);
  EXPECT_EQ(unknown.names(), Names{});
}

TEST(MessagesRequest, ThinksAsItIsTold) {
  const auto thinks = [](std::string_view value) {
    return taken(with(fmt::format(R"(,"thinking":{})", value))).variables["enable_thinking"];
  };
  EXPECT_EQ(thinks(R"({"type":"enabled","budget_tokens":1024})"), true);
  EXPECT_EQ(thinks(R"({"type":"adaptive","display":"summarized"})"), true);
  EXPECT_EQ(thinks(R"({"type":"disabled"})"), false);
  EXPECT_FALSE(taken(with("")).variables.contains("enable_thinking"));
  EXPECT_EQ(taken(with(R"(,"thinking":{"type":"adaptive"})")).variables["thinking"], true);
  EXPECT_EQ(taken(with(R"(,"thinking":{"type":"disabled"})")).variables["thinking"], false);
  EXPECT_EQ(taken(with("")).thoughts, Thoughts::kApart);
  EXPECT_EQ(taken(with(R"(,"thinking":{"type":"adaptive","display":"omitted"})")).thoughts,
            Thoughts::kDropped);
}

constexpr const char* kTools =
    R"(,"tools":[{"name":"f","input_schema":{"type":"object"}},
    {"type":"custom","name":"g","description":"G","input_schema":{"type":"object"}}])";

TEST(MessagesRequest, OffersToolsInOpenAisForm) {
  const ChatRequest request = taken(with(kTools));
  EXPECT_EQ(request.tools.list, Json::parse(R"([
      {"type":"function","function":{"name":"f","parameters":{"type":"object"}}},
      {"type":"function","function":{"name":"g","description":"G","parameters":{"type":"object"}}}])"));
  EXPECT_EQ(request.variables["tools"], request.tools.list);
  EXPECT_EQ(request.tools.choice, Tools::Choice::kAuto);
  EXPECT_TRUE(request.tools.parallel);
  EXPECT_TRUE(taken(with("")).variables["tools"].is_null());
  EXPECT_FALSE(taken(with(R"(,"tools":[])")).tools.offered());
}

TEST(MessagesRequest, TellsOfADeferredToolWhereAResultNamesIt) {
  constexpr std::string_view kTwo =
      R"(,"tools":[{"name":"find","input_schema":{}},{"name":"get","description":"G","defer_loading":true,
      "input_schema":{"type":"object"}}])";
  const ChatRequest before = taken(with(kTwo));
  EXPECT_EQ(before.variables["tools"].size(), 1U);
  EXPECT_EQ(before.tools.names, (Names{"find", "get"}));
  const auto with_result = [&](std::string_view content) {
    return fmt::format(
        R"({{"max_tokens":5,"messages":[{},{{"role":"assistant","content":[
        {{"type":"tool_use","id":"t","name":"find","input":{{}}}}]}},{{"role":"user","content":[
        {{"type":"tool_result","tool_use_id":"t","content":{}}}]}}]{}}})",
        kUser, content, kTwo);
  };
  const ChatRequest after = taken(with_result(
      R"([{"type":"tool_reference","tool_name":"get"},{"type":"tool_reference","tool_name":"get"},
      {"type":"tool_reference","tool_name":"gone"}])"));
  EXPECT_EQ(after.variables["tools"], before.variables["tools"]);
  EXPECT_EQ(after.messages.back()["content"],
            R"(<function>{"name":"get","description":"G","parameters":{"type":"object"}}</function>
<function>{"name":"get"}</function>
<function>{"name":"gone"}</function>)");
  expect_wrong({{with_result(R"([{"type":"tool_reference"}])"),
                 "messages[2].content[0].content[0].tool_name",
                 {"missing"}}});
}

TEST(MessagesRequest, CanForceACallOfADeferredTool) {
  const ChatRequest request = taken(with(
      R"(,"tools":[{"name":"get","defer_loading":true,"input_schema":{"required":["x"]}}],
      "tool_choice":{"type":"tool","name":"get"})"));
  EXPECT_TRUE(request.variables["tools"].is_null());
  EXPECT_EQ(request.response_format["json_schema"]["schema"]["properties"]["arguments"],
            Json::parse(R"({"required":["x"],"type":"object"})"));
}

TEST(MessagesRequest, TakesLongListsOfDeferredTools) {
  std::string tools = R"(,"tools":[{"name":"t0","input_schema":{}})";
  for (int i = 1; i < 1000; ++i)
    tools += fmt::format(R"(,{{"name":"t{}","defer_loading":true,"input_schema":{{}}}})", i);
  const ChatRequest request = taken(with(tools + "]"));
  EXPECT_EQ(request.tools.names.size(), 1000U);
  EXPECT_EQ(request.variables["tools"].size(), 1U);
}

TEST(MessagesRequest, LeavesOutThePicturesOfToolsAndNamesThem) {
  UnknownFields unknown(false);
  const auto parsed = parse_messages_request(Json::parse(of(R"({"role":"assistant","content":[
          {"type":"tool_use","id":"t","name":"f","input":{}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
          {"type":"text","text":"a.png"},{"type":"image","source":{"type":"base64"}},
          {"type":"document","source":{}}]}]})")),
                                             unknown);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->messages.back()["content"],
            "a.png\n[image left out: this model reads only text]\n"
            "[file left out: this model reads only text]");
  EXPECT_EQ(unknown.names(), Names{"messages[1].content[0].content[1].source"});
}

TEST(MessagesRequest, GivesTheModelWhatASearchFoundAndDocumentsOfText) {
  const ChatRequest request = taken(of(R"({"role":"assistant","content":[
      {"type":"tool_use","id":"t","name":"f","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
      {"type":"search_result","title":"T","source":"http://a","citations":{"enabled":true},
       "content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},
      {"type":"document","title":"D","source":{"type":"text","media_type":"text/plain","data":"words"}},
      {"type":"document","context":"C","source":{"type":"content","content":[
       {"type":"text","text":"part"},{"type":"image"}]}}]}]})"));
  EXPECT_EQ(request.messages.back()["content"],
            "T\nhttp://a\none\ntwo\nD\nwords\nC\npart\n"
            "[image left out: this model reads only text]");
}

TEST(MessagesRequest, ChoosesToolsAsItIsTold) {
  const auto chosen = [](std::string_view choice) {
    return taken(with(fmt::format(R"({},"tool_choice":{})", kTools, choice)));
  };
  EXPECT_EQ(chosen(R"({"type":"auto"})").tools.choice, Tools::Choice::kAuto);
  EXPECT_FALSE(chosen(R"({"type":"auto","disable_parallel_tool_use":true})").tools.parallel);
  EXPECT_FALSE(chosen(R"({"type":"none"})").tools.offered());
  const ChatRequest any = chosen(R"({"type":"any"})");
  EXPECT_EQ(any.tools.choice, Tools::Choice::kRequired);
  EXPECT_EQ(any.response_format, any.tools.response_format());
  const ChatRequest named = chosen(R"({"type":"tool","name":"g"})");
  EXPECT_EQ(named.tools.names, Names{"g"});
  EXPECT_EQ(named.tools.choice, Tools::Choice::kRequired);
}

TEST(MessagesRequest, HoldsAnswersToTheSchemaThatIsAsked) {
  constexpr const char* kFormat = R"({"type":"json_schema","schema":{"type":"object"}})";
  const ChatRequest config =
      taken(with(fmt::format(R"(,"output_config":{{"format":{}}})", kFormat)));
  EXPECT_EQ(config.response_format,
            Json::parse(R"({"type":"json_schema","json_schema":{"schema":{"type":"object"}}})"));
  EXPECT_EQ(taken(with(fmt::format(R"(,"output_format":{})", kFormat))).response_format,
            config.response_format);
}

TEST(MessagesRequest, CountsNeedNoLength) {
  const auto body = parse_json(R"({"model":"m","messages":[{"role":"user","content":"Hi"}]})");
  UnknownFields unknown(true);
  EXPECT_TRUE(parse_count_request(*body, unknown).ok());
  const auto refused = parse_messages_request(*body, unknown);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "max_tokens");
}

TEST(MessagesRequest, SaysWhatIsWrongWithMessages) {
  expect_wrong({
      {R"({"max_tokens":5})", "messages", {"missing"}},
      {of(""), "messages", {"at least one"}},
      {of("1"), "messages[0]"},
      {of(R"({"content":"x"})"), "messages[0].role", {"missing"}},
      {of(R"({"role":"tool","content":"x"})"), "messages[0].role", {"user or assistant"}},
      {of(R"({"role":"user"})"), "messages[0].content", {"missing"}},
      {of(R"({"role":"user","content":""})"), "messages[0].content", {"empty"}},
      {of(R"({"role":"user","content":[]})"), "messages[0].content", {"empty"}},
      {of(R"({"role":"assistant","content":""},{"role":"user","content":"x"})"),
       "messages[0].content",
       {"empty"}},
      {of(R"({"role":"assistant","content":""})"), "messages", {"nothing to answer"}},
      {of(R"({"role":"user","content":3})"), "messages[0].content"},
  });
}

TEST(MessagesRequest, TakesAnAnswerWithoutBlocksAsAnEmptyMessage) {
  for (const char* nothing : {"[]", R"([{"type":"text","text":""}])"})
    EXPECT_EQ(
        taken(of(fmt::format(R"({0},{{"role":"assistant","content":{1}}},{0})", kUser, nothing)))
            .messages,
        Json::parse(R"([{"role":"user","content":"Hi"},{"role":"assistant","content":""},
                  {"role":"user","content":"Hi"}])"));
}

TEST(MessagesRequest, SaysWhatIsWrongWithBlocks) {
  const std::string call =
      R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]})";
  expect_wrong({
      {of(R"({"role":"user","content":["x"]})"), "messages[0].content[0]"},
      {of(R"({"role":"user","content":[{"text":"x"}]})"),
       "messages[0].content[0].type",
       {"missing"}},
      {of(R"({"role":"user","content":[{"type":"text"}]})"),
       "messages[0].content[0].text",
       {"missing"}},
      {of(R"({"role":"user","content":[{"type":"text","text":3}]})"),
       "messages[0].content[0].text"},
      {of(R"({"role":"user","content":[{"type":"image","source":{}}]})"),
       "messages[0].content[0].type",
       {"takes no images"}},
      {of(R"({"role":"user","content":[{"type":"tool_use"}]})"),
       "messages[0].content[0].type",
       {"search_result and tool_result"}},
      {of(R"({"role":"user","content":"x","name":"y"})"), "messages[0].name", {"leave it out"}},
      {with(R"(,"system":[{"type":"image"}])"), "system[0].type", {"takes no images"}},
      {with(R"(,"system":1)"), "system"},
      {of(call), "messages[0]", {"tool_result"}},
      {of(R"({"role":"assistant","content":[{"type":"thinking","thinking":"x"}]})"),
       "messages[0]",
       {"no text"}},
  });
}

TEST(MessagesRequest, SaysWhatIsWrongWithCallsAndResults) {
  const std::string call =
      R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},)";
  const auto result = [](std::string_view fields) {
    return fmt::format(R"({{"role":"user","content":[{{"type":"tool_result"{}}}]}})", fields);
  };
  expect_wrong({
      {of(result(R"(,"tool_use_id":"t")")), "messages[0].content[0].tool_use_id", {"no tool_use"}},
      {of(call + result("")), "messages[1].content[0].tool_use_id", {"missing"}},
      {of(call + result(R"(,"tool_use_id":"u")")),
       "messages[1].content[0].tool_use_id",
       {"\"u\"", "no tool_use"}},
      {of(call + result(R"(,"tool_use_id":"t","is_error":1)")), "messages[1].content[0].is_error"},
      {of(call + result(R"(,"tool_use_id":"t","content":[{"type":"container_upload"}])")),
       "messages[1].content[0].content[0].type",
       {"tool_reference"}},
      {of(call + result(R"(,"tool_use_id":"t","content":[{"type":"search_result","title":"T"}])")),
       "messages[1].content[0].content[0].source",
       {"missing"}},
      {of(R"({"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]})"),
       "messages[0].content[0].id",
       {"missing"}},
      {of(R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":"x"}]})"),
       "messages[0].content[0].input"},
      {of(R"({"role":"assistant","content":[{"type":"server_tool_use"}]})"),
       "messages[0].content[0].type",
       {"tool_use"}},
  });
}

TEST(MessagesRequest, SaysWhatIsWrongWithOtherFields) {
  expect_wrong({
      {R"({"max_tokens":0,"messages":[]})", "max_tokens", {"from 1"}},
      {R"({"max_tokens":-1,"messages":[]})", "max_tokens", {"from 1"}},
      {with(R"(,"stop_sequences":"a")"), "stop_sequences"},
      {with(R"(,"stop_sequences":[""])"), "stop_sequences"},
      {with(R"(,"temperature":"hot")"), "temperature"},
      {with(R"(,"n":2)"), "n", {"leave it out"}},
      {with(R"(,"thinking":{"type":"deeply"})"), "thinking.type"},
      {with(R"(,"thinking":{"type":"enabled","budget_tokens":0})"), "thinking.budget_tokens"},
      {with(R"(,"output_config":{"format":{"type":"json_schema"}})"),
       "output_config.format.schema"},
      {with(R"(,"tools":{})"), "tools"},
      {with(R"(,"tools":[{"input_schema":{}}])"), "tools[0].name", {"missing"}},
      {with(R"(,"tools":[{"name":"f"}])"), "tools[0].input_schema"},
      {with(R"(,"tools":[{"type":"web_search_20250305","name":"web_search"}])"),
       "tools[0].type",
       {"Anthropic's own"}},
      {with(R"(,"tool_choice":{"type":"any"})"), "tool_choice", {"needs tools"}},
      {with(std::string(kTools) + R"(,"tool_choice":"any")"), "tool_choice"},
      {with(std::string(kTools) + R"(,"tool_choice":{"type":"required"})"), "tool_choice.type"},
      {with(std::string(kTools) + R"(,"tool_choice":{"type":"tool","name":"h"})"),
       "tool_choice",
       {"\"h\""}},
      {with(std::string(kTools) + R"(,"tool_choice":{"type":"any"},
          "output_format":{"type":"json_schema","schema":{}})"),
       "output_format",
       {"exclude"}},
  });
}

}  // namespace
}  // namespace kvick::server
