#include "server/responses/responses_request.h"

#include <gtest/gtest.h>

namespace kvick::server {
namespace {

struct Parsed {
  std::optional<ResponsesRequest> request;
  ApiError error;
  std::vector<std::string> ignored;
};

Parsed parse(std::string_view fields, bool strict = false, const OwnedResponses& responses = {}) {
  const auto body = parse_json(fmt::format("{{\"input\":\"Hi\"{}}}", fields));
  EXPECT_TRUE(body.ok()) << fields;
  UnknownFields unknown(strict);
  auto request = parse_responses(*body, responses, unknown);
  Parsed out = {.ignored = unknown.names()};
  if (request.ok())
    out.request = *std::move(request);
  else
    out.error = request.error();
  return out;
}

ResponsesRequest taken(std::string_view fields, const OwnedResponses& responses = {}) {
  Parsed parsed = parse(fields, true, responses);
  EXPECT_TRUE(parsed.request.has_value()) << fields << ": " << parsed.error.message;
  return parsed.request.value_or(ResponsesRequest{});
}

constexpr const char* kTools = R"(,"tools":[{"type":"function","name":"f","description":"d",
    "parameters":{"type":"object"},"strict":true},{"type":"function","name":"g","parameters":null}])";

OwnedResponses kept() { return {.store = std::make_shared<ResponseStore>(1 << 20), .owner = 1}; }

// Stores an answer to "before" with one output item.
void put(const OwnedResponses& to, const char* id, const char* output) {
  to.store->put(id, to.owner,
                {fmt::format(R"({{"status":"completed","output":[{}]}})", output),
                 R"([{"id":"msg_1_in0","type":"message","role":"user",
                      "content":[{"type":"input_text","text":"before"}]}])"});
}
constexpr const char* kAnswer = R"({"id":"msg_1_0","type":"message","role":"assistant",
    "status":"completed","content":[{"type":"output_text","text":"answered"}]})";

TEST(ResponsesRequest, IsAChatsRequest) {
  const ResponsesRequest request = taken(
      R"(,"model":"m","instructions":"Be brief","max_output_tokens":9,"temperature":0.5,
         "top_p":0.25,"stream":true,"seed":3,"cache_salt":"s","reasoning":{"effort":"low",
         "summary":"auto"},"kv":{"type":"q8"},"truncation":"auto","include":["reasoning.encrypted_content"],
         "user":"u","metadata":{"a":"b"},"prompt_cache_key":"k","store":false,"service_tier":"auto",
         "max_tool_calls":3,"background":false,"stream_options":{"include_obfuscation":false})");
  const ChatRequest& chat = request.chat;
  EXPECT_EQ(
      chat.messages,
      Json::parse(R"([{"role":"system","content":"Be brief"},{"role":"user","content":"Hi"}])"));
  EXPECT_EQ(chat.model, "m");
  EXPECT_EQ(chat.max_tokens, 9U);
  EXPECT_EQ(chat.sampling.temperature, 0.5F);
  EXPECT_EQ(chat.sampling.top_p, 0.25F);
  EXPECT_TRUE(chat.stream && chat.kv.has_value());
  EXPECT_EQ(chat.seed, 3U);
  EXPECT_EQ(chat.salt, "s");
  EXPECT_EQ(chat.variables["reasoning_effort"], "low");
  EXPECT_EQ(request.echo["metadata"]["a"], "b");
  EXPECT_EQ(request.echo["temperature"], 0.5);
  EXPECT_EQ(request.echo["truncation"], "disabled");
  EXPECT_FALSE(request.store);
}

TEST(ResponsesRequest, OffersItsFunctionsAsAChatsTools) {
  const ResponsesRequest request = taken(kTools);
  EXPECT_EQ(request.chat.tools.list, Json::parse(R"([{"type":"function","function":{"name":"f",
      "description":"d","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}])"));
  EXPECT_EQ(request.echo["tools"][0]["strict"], true);
  EXPECT_EQ(request.echo["tool_choice"], "auto");
}

TEST(ResponsesRequest, HasAToolChoice) {
  const auto tools = [](const char* choice) {
    return taken(fmt::format("{},\"tool_choice\":{}", kTools, choice)).chat;
  };
  using Choice = Tools::Choice;
  EXPECT_EQ(tools(R"("auto")").tools.choice, Choice::kAuto);
  EXPECT_EQ(tools(R"("none")").tools.choice, Choice::kNone);
  EXPECT_EQ(tools(R"("required")").tools.choice, Choice::kRequired);
  const ChatRequest named = tools(R"({"type":"function","name":"g"})");
  EXPECT_EQ(named.tools.choice, Choice::kRequired);
  EXPECT_EQ(named.tools.names, std::vector<std::string>{"g"});
  const ChatRequest allowed = tools(
      R"({"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]})");
  EXPECT_EQ(allowed.tools.names, std::vector<std::string>{"f"});
  EXPECT_EQ(to_text(allowed.response_format).find("\"g\""), std::string::npos);
  // Clients send this with every request.
  EXPECT_FALSE(taken(R"(,"tool_choice":"auto","tools":[])").chat.tools.offered());
}

TEST(ResponsesRequest, OffersTheFunctionsOfANamespaceByOneName) {
  const Parsed parsed = parse(
      R"(,"tools":[{"type":"namespace","name":"files","description":"D","tools":[
      {"type":"function","name":"read","strict":false,"parameters":{"type":"object"}},
      {"type":"custom","name":"patch"}]},{"type":"namespace","name":"mcp__web__","tools":[
      {"type":"function","name":"get"}]},{"type":"function","name":"read"}])");
  ASSERT_TRUE(parsed.request.has_value());
  EXPECT_EQ(parsed.request->chat.tools.names,
            (std::vector<std::string>{"files__read", "mcp__web__get", "read"}));
  ASSERT_EQ(parsed.request->namespaces.size(), 2U);
  EXPECT_EQ(parsed.request->namespaces.at("files__read").space, "files");
  EXPECT_EQ(parsed.request->namespaces.at("mcp__web__get").name, "get");
  EXPECT_EQ(parsed.ignored, std::vector<std::string>{"tools[0].tools[1].custom"});
}

TEST(ResponsesRequest, IgnoresToolsThatAreNoFunctionsAndNamesThem) {
  const Parsed parsed = parse(R"(,"tools":[{"type":"web_search"},{"type":"function","name":"f"},
      {"type":"custom","name":"apply_patch","format":{"type":"grammar"}},{"type":"local_shell"}])");
  ASSERT_TRUE(parsed.request.has_value());
  EXPECT_EQ(parsed.request->chat.tools.names, std::vector<std::string>{"f"});
  EXPECT_EQ(parsed.ignored, (std::vector<std::string>{"tools[0].web_search", "tools[2].custom",
                                                      "tools[3].local_shell"}));
}

TEST(ResponsesRequest, HoldsTheAnswerToAForm) {
  const ChatRequest chat = taken(R"(,"text":{"verbosity":"low","format":{"type":"json_schema",
      "name":"n","strict":true,"schema":{"type":"object"}}})")
                               .chat;
  EXPECT_EQ(chat.response_format, Json::parse(R"({"type":"json_schema","json_schema":
      {"schema":{"type":"object"},"name":"n"}})"));
  EXPECT_EQ(chat.format_field, "text.format");
  EXPECT_EQ(taken(R"(,"text":{"format":{"type":"json_object"}})").chat.response_format["type"],
            "json_object");
  EXPECT_TRUE(taken(R"(,"text":{"format":{"type":"text"}})").chat.response_format.is_null());
}

TEST(ResponsesRequest, NamesAChatsFieldsThatItDoesNotTake) {
  EXPECT_EQ(
      parse(R"(,"max_tokens":5,"n":2,"top_logprobs":0,"logprobs":false,"odd":1,
                      "include":["file_search_call.results"])")
          .ignored,
      (std::vector<std::string>{"n", "max_tokens", "include.file_search_call.results", "odd"}));
}

TEST(ResponsesRequest, SaysWhatIsWrongByItsOwnNames) {
  const struct {
    const char *fields, *param, *says;
  } kTable[] = {
      {R"(,"max_output_tokens":0)", "max_output_tokens", "whole number"},
      {R"(,"background":true)", "background", "leave background out"},
      {R"(,"conversation":"conv_1")", "conversation", "previous_response_id"},
      {R"(,"prompt":{"id":"p"})", "prompt", "instructions"},
      {R"(,"truncation":"middle")", "truncation", "auto"},
      {R"(,"metadata":3)", "metadata", "object"},
      {R"(,"include":"x")", "include", "list"},
      {R"(,"include":["x"])", "include", "leave it out"},
      {R"(,"messages":[])", "messages", "leave it out"},
      {R"(,"n":2)", "n", "leave it out"},
      {R"(,"reasoning":"low")", "reasoning", "object"},
      {R"(,"text":{"format":{"type":"xml"}})", "text.format.type", "json_schema"},
      {R"(,"text":{"format":{"type":"json_schema"}})", "text.format.schema", "missing"},
      {R"(,"tools":{})", "tools", "list"},
      {R"(,"tools":[{"name":"f"}])", "tools[0].type", "missing"},
      {R"(,"tools":[{"type":"function"}])", "tools[0].name", "missing"},
      {R"(,"tools":[{"type":"function","name":"f","parameters":1}])", "tools[0].parameters",
       "schema"},
      {R"(,"tools":[{"type":"web_search"}])", "tools[0].type", "leave the tool out"},
      {R"(,"tool_choice":"required")", "tool_choice", "needs functions"},
      {R"(,"tool_choice":"any")", "tool_choice", "required"},
      {R"(,"tool_choice":{"type":"web_search_preview"})", "tool_choice", "functions only"},
      {R"(,"tool_choice":{"type":"function","name":"h"})", "tool_choice", "not among the tools"},
      {R"(,"previous_response_id":"resp_1")", "previous_response_id", "keeps no responses"},
      {R"(,"temperature":"hot")", "temperature", "number"},
      {R"(,"odd":1)", "odd", "leave it out"},
      {R"(,"tools":[{"type":"function","name":"f"}],"tool_choice":"required",
          "text":{"format":{"type":"json_object"}})",
       "text.format", "text.format and a tool_choice"},
  };
  for (const auto& one : kTable) {
    SCOPED_TRACE(one.fields);
    const Parsed parsed = parse(one.fields, true);
    ASSERT_FALSE(parsed.request.has_value());
    EXPECT_EQ(parsed.error.status, 400U);
    EXPECT_EQ(parsed.error.param, one.param);
    EXPECT_NE(parsed.error.message.find(one.says), std::string::npos) << parsed.error.message;
  }
}

TEST(ResponsesRequest, GoesOnFromAStoredResponseWithoutItsInstructions) {
  const OwnedResponses responses = kept();
  put(responses, "resp_1", kAnswer);
  const ResponsesRequest request =
      taken(R"(,"previous_response_id":"resp_1","instructions":"new")", responses);
  EXPECT_EQ(request.chat.messages,
            Json::parse(R"([{"role":"system","content":"new"},{"role":"user","content":"before"},
                {"role":"assistant","content":"answered"},{"role":"user","content":"Hi"}])"));
  EXPECT_EQ(request.items.size(), 3U);
  EXPECT_EQ(request.echo["previous_response_id"], "resp_1");
  EXPECT_TRUE(request.store);
}

TEST(ResponsesRequest, FindsOnlyResponsesOfItsOwner) {
  OwnedResponses responses = kept();
  put(responses, "resp_1", kAnswer);
  responses.owner = 2;
  const Parsed parsed = parse(R"(,"previous_response_id":"resp_1")", true, responses);
  EXPECT_EQ(parsed.error.code, "previous_response_not_found");
}

TEST(ResponsesRequest, GoesOnFromACallThatWasCutAsFromOneWithoutArguments) {
  const OwnedResponses responses = kept();
  put(responses, "resp_1", R"({"id":"fc_1_0","type":"function_call","status":"incomplete",
      "call_id":"c","name":"f","arguments":"{\"x"})");
  const Parsed parsed = parse(R"(,"previous_response_id":"resp_1")", false, responses);
  ASSERT_TRUE(parsed.request.has_value()) << parsed.error.message;
  EXPECT_EQ(parsed.request->chat.messages[1]["tool_calls"][0]["function"],
            Json::parse(R"({"name":"f","arguments":{}})"));
  EXPECT_EQ(parsed.request->items[1]["arguments"], "{}");
  EXPECT_EQ(parsed.ignored, std::vector<std::string>{"previous_response_id.output[0].arguments"});
  const Parsed strict = parse(R"(,"previous_response_id":"resp_1")", true, responses);
  EXPECT_EQ(strict.error.param, "previous_response_id");
  EXPECT_NE(strict.error.message.find("max_output_tokens"), std::string::npos);
}

TEST(ResponsesRequest, RefersToACallThatWasCutAsToOneWithoutArguments) {
  const OwnedResponses responses = kept();
  put(responses, "resp_1", R"({"id":"fc_1_0","type":"function_call","status":"incomplete",
      "call_id":"c","name":"f","arguments":"{\"x"})");
  const Json body = {{"input", Json::parse(R"([{"role":"user","content":"q"},{"id":"fc_1_0"},
      {"type":"function_call_output","call_id":"c","output":"o"}])")}};
  UnknownFields named(false), refused(true);
  const auto request = parse_responses(body, responses, named);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->items[1]["arguments"], "{}");
  EXPECT_EQ(named.names(), std::vector<std::string>{"input[1].arguments"});
  const auto strict = parse_responses(body, responses, refused);
  ASSERT_FALSE(strict.ok());
  EXPECT_EQ(strict.error().param, "input[1].id");
  EXPECT_NE(strict.error().message.find("max_output_tokens"), std::string::npos);
}

TEST(ResponsesRequest, TakesEachItemThatItRefersToOnce) {
  const OwnedResponses responses = kept();
  put(responses, "resp_1", kAnswer);
  const auto items = [&](const char* input) {
    UnknownFields unknown(true);
    return parse_responses({{"input", Json::parse(input)}}, responses, unknown);
  };
  const auto once = items(R"([{"type":"item_reference","id":"msg_1_in0"},{"id":"msg_1_0"}])");
  ASSERT_TRUE(once.ok()) << once.error().message;
  EXPECT_EQ(once->chat.messages[1]["content"], "answered");
  const auto twice = items(R"([{"id":"msg_1_0"},{"id":"msg_1_0"}])");
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().param, "input[1].id");
  for (const char* id : {"msg_2_0", "msg_", "_", "", "msg_1", "msg_1_7"})
    EXPECT_FALSE(items(fmt::format(R"([{{"type":"item_reference","id":"{}"}}])", id).c_str()).ok());
}

}  // namespace
}  // namespace kvick::server
