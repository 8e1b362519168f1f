// Anthropic's routes: requests, answers, streams and errors.

#include <gtest/gtest.h>
#include <sstream>

#include "server/anthropic/messages_request.h"
#include "server/api/static_files.h"
#include "server/testing/api.h"
#include "server/testing/claude_code.h"

namespace kvick::server {
namespace {

constexpr const char* kPath = "/v1/messages";
constexpr const char* kAsked = R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]})";
constexpr const char* kStreamed =
    R"({"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"}]})";

class AnthropicTest : public ApiTest {
 protected:
  std::string prompt(size_t job) const {
    return test_engine().tokenizer().decode(service_.jobs.at(job).prompt, true);
  }
};

std::string error_type(const Seen& seen) {
  EXPECT_EQ(seen.json()["type"], "error");
  return seen.json()["error"]["type"];
}

TEST_F(AnthropicTest, AnswersAMessageWhole) {
  Seen seen;
  post(seen, "/v1/messages?beta=true", kAsked);
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_EQ(prompt(0), "<user>Hi");
  EXPECT_EQ(service_.jobs[0].max_tokens, 9U);
  answer(0), end(0);
  EXPECT_EQ(seen.json(), Json::parse(R"({"id":"msg_0000000000000002","type":"message",
      "role":"assistant","model":"tiny","content":[{"type":"text","text":"Hello"}],
      "stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,
      "cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":3}})"));
}

TEST_F(AnthropicTest, StreamsAMessage) {
  Seen seen;
  post(seen, kPath, kStreamed);
  answer(0);
  EXPECT_FALSE(seen.ended);
  end(0);
  EXPECT_TRUE(seen.streaming && seen.ended);
  EXPECT_EQ(seen.stream_type, kEventStream);
  std::vector<std::string> names;
  std::string line;
  for (std::istringstream in(seen.events); std::getline(in, line);)
    if (line.starts_with("event: ")) names.push_back(line.substr(7));
  EXPECT_EQ(names,
            (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                      "content_block_delta", "content_block_stop", "message_delta",
                                      "message_stop"}));
  EXPECT_NE(seen.events.find(R"("delta":{"type":"text_delta","text":"Hel"})"), std::string::npos);
  EXPECT_NE(seen.events.find(R"("delta":{"stop_reason":"end_turn","stop_sequence":null},)"
                             R"("usage":{"input_tokens":3,)"),
            std::string::npos)
      << seen.events;
}

TEST_F(AnthropicTest, FindsTheCallsOfTools) {
  Seen seen;
  post(seen, kPath,
       R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"}],
           "tools":[{"name":"f","input_schema":{"type":"object"}}]})");
  EXPECT_TRUE(prompt(0).starts_with("<system>You can call these tools:\n{\"name\":\"f\","))
      << prompt(0);
  service_.jobs[0].on_piece(
      {.text = "<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>",
       .finish = engine::Finish::kEnd});
  end(0);
  EXPECT_EQ(seen.json()["stop_reason"], "tool_use");
  EXPECT_EQ(seen.json()["content"], Json::parse(R"([{"type":"tool_use",
      "id":"toolu_0000000000000002_0","name":"f","input":{"x":1}}])"));
}

TEST_F(AnthropicTest, GoesOnWithTheAssistantsLastMessage) {
  posted(kPath, R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"},
                    {"role":"assistant","content":"He"}]})");
  EXPECT_EQ(prompt(0), "<user>Hi<assistant>He");
  EXPECT_TRUE(service_.jobs[0].continues);
}

TEST_F(AnthropicTest, NamesTheStopSequenceThatEndedIt) {
  Seen seen;
  post(seen, kPath,
       R"({"max_tokens":9,"stop_sequences":["X"],"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(service_.jobs.at(0).stop, std::vector<std::string>{"X"});
  service_.jobs[0].on_piece({.text = "a", .finish = engine::Finish::kStop, .stop = "X"});
  end(0);
  EXPECT_EQ(seen.json()["stop_reason"], "stop_sequence");
  EXPECT_EQ(seen.json()["stop_sequence"], "X");
}

TEST_F(AnthropicTest, CountsTheTokensThatAnAnswerWouldReport) {
  for (const char* body : {kAsked, kClaudeCode}) {
    posted(kPath, body);
    const Seen counted = posted("/v1/messages/count_tokens", body);
    EXPECT_EQ(counted.json(), Json({{"input_tokens", service_.jobs.back().prompt.size()}}));
  }
  EXPECT_EQ(posted("/v1/messages/count_tokens", R"({"messages":[]})").json()["error"]["message"],
            "messages must be a list of at least one message");
}

TEST_F(AnthropicTest, NamesTheFieldsOfClaudeCodeThatItIgnores) {
  Json other = Json::parse(kClaudeCode);
  other["context_management"]["edits"][0]["keep"] = {{"type", "thinking_turns"}, {"value", 1}};
  const std::string body = to_text(other);
  const Seen stream = posted(kPath, body.c_str());
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_TRUE(stream.streaming);
  EXPECT_EQ(stream.ignored(), "context_management");
  make([](ApiOptions& options) { options.strict_fields = true; });
  EXPECT_EQ(posted(kPath, kClaudeCode).response.status, 200U);
  const Seen refused = posted(kPath, body.c_str());
  EXPECT_EQ(refused.response.status, 400U);
  EXPECT_NE(refused.json()["error"]["message"].get<std::string>().find("context_management"),
            std::string::npos);
}

TEST_F(AnthropicTest, SaysWhatIsWrongInAnthropicsForm) {
  const Seen bad = posted(kPath, R"({"max_tokens":1,"messages":[{"role":"user"}]})");
  EXPECT_EQ(bad.response.status, 400U);
  EXPECT_EQ(bad.json(), Json::parse(R"({"type":"error","error":{"type":"invalid_request_error",
      "message":"messages[0].content is missing"},"request_id":null})"));
  EXPECT_EQ(error_type(posted(kPath, "{")), "invalid_request_error");
  const Seen other = posted(
      kPath, R"({"model":"claude","max_tokens":1,"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(other.response.status, 404U);
  EXPECT_EQ(error_type(other), "not_found_error");
  Seen form;
  call(form, {.method = "POST", .target = kPath, .body = "{}"});
  EXPECT_EQ(form.response.status, 415U);
  EXPECT_EQ(error_type(form), "invalid_request_error");
  make([](ApiOptions& options) { options.keys = ApiKeys({"k"}); });
  const Seen unknown = posted(kPath, kAsked);
  EXPECT_EQ(unknown.response.status, 401U);
  EXPECT_EQ(error_type(unknown), "authentication_error");
  EXPECT_TRUE(service_.jobs.empty());
}

TEST_F(AnthropicTest, HandsOnWhatTheServiceRefuses) {
  using Why = engine::Refusal::Why;
  for (const auto& [why, status, type] : {std::tuple(Why::kInvalid, 400U, "invalid_request_error"),
                                          {Why::kTooLong, 400U, "invalid_request_error"},
                                          {Why::kFailed, 500U, "api_error"},
                                          {Why::kBusy, 503U, "overloaded_error"}}) {
    service_.refuse_from = service_.jobs.size();
    service_.refusal = {why, "no", "prompt"};
    const Seen seen = posted(kPath, kStreamed);
    EXPECT_FALSE(seen.streaming);
    EXPECT_EQ(seen.response.status, status);
    EXPECT_EQ(error_type(seen), type);
    // Clients that shorten their conversation search for these words.
    EXPECT_EQ(seen.json()["error"]["message"],
              why == Why::kTooLong ? "prompt is too long: no" : "no");
    EXPECT_EQ(seen.response.headers.empty(), why != Why::kBusy);
  }
}

// The parser knows every field of the document; it refuses unknown ones.
TEST_F(AnthropicTest, KnowsTheFieldsThatItsOpenApiDocumentNames) {
  make([](ApiOptions& options) { options.strict_fields = true; });
  const Json schemas = Json::parse(openapi_json())["components"]["schemas"];
  for (const auto& [path, schema] : {std::pair(kPath, "MessagesRequest"),
                                     std::pair("/v1/messages/count_tokens", "CountTokensRequest")})
    for (const auto& [field, type] : schemas[schema]["properties"].items()) {
      Json body = Json::parse(kAsked);
      body[field] = Json::object({{"\x01", 1}});
      const Seen seen = posted(path, to_text(body).c_str());
      EXPECT_EQ(seen.response.body.find(fmt::format("\\\"{}\\\" is no field", field)),
                std::string::npos)
          << seen.response.body;
    }
}

TEST_F(AnthropicTest, SaysWhyAStreamBroke) {
  Seen stream;
  post(stream, kPath, kStreamed);
  const engine::Refusal refusal = {engine::Refusal::Why::kFailed, "it broke", ""};
  service_.jobs[0].on_end({.error = refusal});
  EXPECT_TRUE(stream.ended);
  EXPECT_NE(stream.events.find("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                               "\"api_error\",\"message\":\"it broke\"}"),
            std::string::npos);
  EXPECT_EQ(stream.events.find("message_stop"), std::string::npos);
}

std::string with_blocks(std::string_view blocks) {
  return fmt::format(R"({{"max_tokens":9,"messages":[{{"role":"user","content":[{}]}}]}})", blocks);
}

TEST_F(AnthropicTest, GivesTheModelTheDocumentsAndSearchResultsOfAUser) {
  const std::string body = with_blocks(R"(
      {"type":"document","title":"D","context":"C","citations":{"enabled":true},
       "cache_control":{"type":"ephemeral"},
       "source":{"type":"text","media_type":"text/plain","data":"words"}},
      {"type":"document","title":null,"source":{"type":"content","content":[
       {"type":"text","text":"one"},{"type":"text","text":"two"}]}},
      {"type":"document","source":{"type":"content","content":"three"}},
      {"type":"search_result","title":"T","source":"http://a","citations":{"enabled":false},
       "cache_control":{"type":"ephemeral"},"content":[{"type":"text","text":"found"}]},
      {"type":"text","text":"What is it?"})");
  UnknownFields unknown(true);
  const auto request = parse_messages_request(Json::parse(body), unknown);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->messages, Json::parse(R"([{"role":"user","content":
            "D\nC\nwords\none\ntwo\nthree\nT\nhttp://a\nfound\nWhat is it?"}])"));
}

TEST_F(AnthropicTest, SaysWhichDocumentsItDoesNotRead) {
  const auto expect_refused = [this](std::string_view block, std::string_view says) {
    const Seen seen = posted(kPath, with_blocks(block).c_str());
    EXPECT_EQ(seen.response.status, 400U) << block;
    EXPECT_EQ(error_type(seen), "invalid_request_error");
    const std::string message = seen.json()["error"]["message"];
    EXPECT_NE(message.find(says), std::string::npos) << message;
  };
  for (const char* type : {"base64", "url", "file"})
    expect_refused(fmt::format(R"({{"type":"document","source":{{"type":"{}"}}}})", type),
                   fmt::format("messages[0].content[0].source.type is \"{}\", but this server "
                               "reads only documents of text",
                               type));
  expect_refused(R"({"type":"document"})", "messages[0].content[0].source is missing");
  expect_refused(R"({"type":"document","source":{"type":"text"}})", "source.data is missing");
  expect_refused(R"({"type":"document","source":{"type":"content","content":[{"type":"image"}]}})",
                 "messages[0].content[0].source.content[0].type is \"image\"");
  expect_refused(R"({"type":"search_result","title":"T","source":"S"})", "content is missing");
}

}  // namespace
}  // namespace kvick::server
