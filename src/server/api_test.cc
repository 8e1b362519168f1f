// Requests to the API and its answers, without a network: threads run what they are given at once.

#include "server/api.h"

#include <gtest/gtest.h>
#include <limits>

#include "server/static_files.h"
#include "server/test_service.h"

namespace kvick::server {
namespace {

// What a client would see, kept apart from the reply so that it outlives it.
struct Seen {
  HttpResponse response;
  int answers = 0;
  std::string events;
  bool streaming = false, ended = false;
  std::function<void()> gone;
  Json json() const { return Json::parse(response.body); }
};

class RecordedReply : public Reply {
 public:
  explicit RecordedReply(Seen& seen) : seen_(seen) {}
  void send(HttpResponse response) override {
    seen_.response = std::move(response);
    ++seen_.answers;
  }
  void begin_events() override { seen_.streaming = true; }
  void event(std::string_view bytes) override { seen_.events += bytes; }
  void end_events() override { seen_.ended = true, ++seen_.answers; }
  void on_gone(std::function<void()> gone) override { seen_.gone = std::move(gone); }

 private:
  Seen& seen_;
};

class AnyText : public text::Constraint {
 public:
  std::unique_ptr<Constraint> clone() const override { return std::make_unique<AnyText>(); }
  void mask(std::span<float>) override {}
  void accept(int32_t) override {}
  bool complete() const override { return true; }
};

class ApiTest : public testing::Test {
 protected:
  void SetUp() override { make(ApiKeys()); }
  void make(ApiKeys keys) {
    const Post inline_post = [](const std::function<void()>& task) { task(); };
    ApiOptions options = {.model = "tiny",
                          .keys = std::move(keys),
                          .constraint = [this](const Json& format) { return constrain(format); },
                          .random = [n = uint64_t{0}]() mutable { return ++n; },
                          .unix_time = [] { return 1000; },
                          .report = {}};
    api_ = std::make_unique<Api>(test_engine(), service_, std::move(options),
                                 Threads{inline_post, inline_post, inline_post}, counters_);
  }
  base::Result<std::shared_ptr<const text::Constraint>> constrain(const Json& format) {
    constrained_ = format;
    if (format["type"] == "json_object")
      return std::shared_ptr<const text::Constraint>(std::make_shared<AnyText>());
    return base::fail("no such schema");
  }
  void call(Seen& seen, HttpRequest request) {
    api_->handle(std::move(request), std::make_shared<RecordedReply>(seen));
  }
  void post(Seen& seen, std::string path, const char* body) {
    call(seen, {.method = "POST",
                .target = std::move(path),
                .content_type = "application/json; charset=utf-8",
                .body = body});
  }
  Seen get(std::string path) {
    Seen seen;
    call(seen, {.method = "GET", .target = std::move(path)});
    return seen;
  }
  Seen posted(std::string path, const char* body) {
    Seen seen;
    post(seen, std::move(path), body);
    return seen;
  }
  // A job's answer in two pieces, and its end.
  void answer(size_t job, uint32_t choice = 0) {
    const engine::Job& taken = service_.jobs.at(job);
    taken.on_piece({.choice = choice, .text = "Hel"});
    taken.on_piece({.choice = choice, .text = "lo", .finish = engine::Finish::kEnd});
  }
  void end(size_t job) {
    service_.jobs.at(job).on_end(
        {.prompt_tokens = 5, .cached_tokens = 2, .generated_tokens = 3, .error = {}});
  }

  ManualService service_;
  NetworkCounters counters_;
  Json constrained_;
  std::unique_ptr<Api> api_;
};

constexpr const char* kHello = R"({"messages":[{"role":"user","content":"Hi"}]})";

TEST_F(ApiTest, AnswersAChatWhole) {
  Seen seen;
  post(seen, "/v1/chat/completions", kHello);
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_EQ(test_engine().tokenizer().decode(service_.jobs[0].prompt, true), "<user>Hi");
  EXPECT_FALSE(service_.jobs[0].continues);
  answer(0);
  EXPECT_EQ(seen.answers, 0);
  end(0);
  EXPECT_EQ(seen.json(),
            Json::parse(R"({"id":"chatcmpl-0000000000000002","object":"chat.completion",
    "created":1000,"model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},
    "logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3,
    "total_tokens":8,"prompt_tokens_details":{"cached_tokens":2}}})"));
}

TEST_F(ApiTest, StreamsAChat) {
  Seen seen;
  post(seen, "/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,
           "stream_options":{"include_usage":true}})");
  answer(0);
  EXPECT_FALSE(seen.ended);
  end(0);
  EXPECT_TRUE(seen.streaming && seen.ended);
  std::vector<std::string> choices;
  std::string line, usage;
  for (std::istringstream in(seen.events); std::getline(in, line);) {
    if (!line.starts_with("data: {")) continue;
    const Json chunk = Json::parse(line.substr(6));
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    if (chunk["choices"].empty())
      usage = to_text(chunk["usage"]);
    else
      choices.push_back(to_text(chunk["choices"][0]["delta"]) +
                        to_text(chunk["choices"][0]["finish_reason"]));
  }
  EXPECT_EQ(choices,
            (std::vector<std::string>{R"({"role":"assistant","content":""}null)",
                                      R"({"content":"Hel"}null)", R"({"content":"lo"}"stop")"}));
  EXPECT_EQ(Json::parse(usage)["total_tokens"], 8);
  EXPECT_TRUE(seen.events.ends_with("data: [DONE]\n\n"));
}

TEST_F(ApiTest, GivesTheChoicesOfSeveralPromptsInOrder) {
  Seen seen;
  post(seen, "/v1/completions", R"({"prompt":["a","b"],"n":2,"echo":true,"seed":5})");
  ASSERT_EQ(service_.jobs.size(), 2U);
  EXPECT_EQ(service_.jobs[1].choices, 2U);
  EXPECT_EQ(service_.jobs[1].sampling.seed, 5U);
  EXPECT_TRUE(service_.jobs[1].continues);
  for (const size_t job : {1, 0}) {
    for (const uint32_t choice : {1, 0}) answer(job, choice);
    end(job);
  }
  const Json choices = seen.json()["choices"];
  ASSERT_EQ(choices.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[i]["index"], i);
    EXPECT_EQ(choices[i]["text"], i < 2 ? "aHello" : "bHello");
  }
  EXPECT_EQ(seen.json()["usage"]["prompt_tokens"], 10);
}

TEST_F(ApiTest, ReportsTokensInBothForms) {
  const engine::Token a = test_engine().tokenizer().encode("a", false, false).at(0);
  const engine::TokenReport report = {.chosen = {a, -0.5F}, .top = {{a, -0.5F}, {a, -INFINITY}}};
  Seen chat, completion;
  post(chat, "/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"Hi"}],"logprobs":true,"top_logprobs":2})");
  post(completion, "/v1/completions", R"({"prompt":"x","logprobs":2})");
  for (const size_t job : {0, 1}) {
    EXPECT_EQ(service_.jobs[job].logprobs, 2U);
    service_.jobs[job].on_piece({.text = "a", .tokens = {report}, .finish = {}});
    service_.jobs[job].on_piece(
        {.text = "a", .tokens = {report}, .finish = engine::Finish::kLength});
    end(job);
  }
  const Json content = chat.json()["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2U);
  EXPECT_EQ(content[0], Json::parse(R"({"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[
    {"token":"a","logprob":-0.5,"bytes":[97]},{"token":"a","logprob":-9999.0,"bytes":[97]}]})"));
  const Json logprobs = completion.json()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::parse(R"(["a","a"])"));
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0,1]"));
  EXPECT_EQ(completion.json()["choices"][0]["finish_reason"], "length");
}

TEST_F(ApiTest, FindsTheCallsOfTools) {
  Seen seen;
  post(
      seen, "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f"}}]})");
  EXPECT_EQ(test_engine().tokenizer().decode(service_.jobs[0].prompt, true), "<user>Hi[1 tools]");
  service_.jobs[0].on_piece({.text = "<tool_call>{\"name\":\"f\",\"argum"});
  service_.jobs[0].on_piece(
      {.text = "ents\":{\"x\":1}}</tool_call>", .finish = engine::Finish::kEnd});
  end(0);
  const Json choice = seen.json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  const Json function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function, Json::parse(R"({"name":"f","arguments":"{\"x\":1}"})"));
}

TEST_F(ApiTest, MakesTheConstraintOfAResponseFormat) {
  posted("/v1/completions", R"({"prompt":"x","response_format":{"type":"json_object"}})");
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_NE(service_.jobs[0].constraint, nullptr);
  const Seen refused = posted(
      "/v1/completions",
      R"({"prompt":"x","response_format":{"type":"json_schema","json_schema":{"schema":{}}}})");
  EXPECT_EQ(refused.response.status, 400U);
  EXPECT_EQ(refused.json()["error"]["param"], "response_format");
  EXPECT_EQ(constrained_["type"], "json_schema");
}

TEST_F(ApiTest, HandsOnWhatTheServiceRefuses) {
  using Why = engine::Refusal::Why;
  for (const auto& [why, status] :
       {std::pair(Why::kInvalid, 400U), {Why::kTooLarge, 400U}, {Why::kBusy, 429U}}) {
    service_.refuse_from = service_.jobs.size();
    service_.refusal = {why, "no", "max_tokens"};
    const Seen seen = posted("/v1/chat/completions", kHello);
    EXPECT_EQ(seen.response.status, status);
    EXPECT_EQ(seen.json()["error"]["param"], "max_tokens");
    EXPECT_EQ(seen.response.headers.empty(), why != Why::kBusy);
  }
}

TEST_F(ApiTest, TakesAllPromptsOrNone) {
  service_.refuse_from = 1;
  service_.refusal = {engine::Refusal::Why::kBusy, "full", ""};
  const Seen seen = posted("/v1/completions", R"({"prompt":["a","b"],"stream":true})");
  EXPECT_EQ(seen.response.status, 429U);
  EXPECT_FALSE(seen.streaming);
  EXPECT_EQ(service_.cancelled, std::vector<size_t>{0});
  answer(0);
  end(0);
  EXPECT_EQ(seen.answers, 1);
}

TEST_F(ApiTest, CancelsTheJobsOfAClientThatHasGone) {
  Seen seen;
  post(seen, "/v1/completions", R"({"prompt":["a","b"]})");
  seen.gone();
  EXPECT_EQ(service_.cancelled, (std::vector<size_t>{0, 1}));
  end(0), end(1);
  EXPECT_EQ(seen.answers, 0);
}

TEST_F(ApiTest, SaysWhyAJobCouldNotGoOn) {
  Seen whole, stream;
  post(whole, "/v1/completions", R"({"prompt":"a"})");
  post(stream, "/v1/completions", R"({"prompt":"a","stream":true})");
  const engine::Refusal refusal = {engine::Refusal::Why::kTooLarge, "no room", ""};
  for (const size_t job : {0, 1}) service_.jobs[job].on_end({.error = refusal});
  EXPECT_EQ(whole.response.status, 400U);
  EXPECT_EQ(whole.json()["error"]["code"], "too_large");
  EXPECT_EQ(whole.json()["error"]["message"], "no room");
  EXPECT_NE(stream.events.find("\"message\":\"no room\""), std::string::npos);
  EXPECT_TRUE(stream.ended);
}

TEST_F(ApiTest, AnswersBadRequestsWithTheRightStatus) {
  EXPECT_EQ(get("/nothing").response.status, 404U);
  EXPECT_EQ(get("/v1/completions").response.status, 405U);
  EXPECT_EQ(get("/v1/models/other").response.status, 404U);
  Seen form;
  call(form, {.method = "POST", .target = "/v1/completions", .body = "{}"});
  EXPECT_EQ(form.response.status, 415U);
  EXPECT_EQ(posted("/v1/completions", "{").response.status, 400U);
  EXPECT_EQ(posted("/v1/completions", "[]").response.status, 400U);
  EXPECT_EQ(posted("/v1/completions", "{}").json()["error"]["param"], "prompt");
  EXPECT_EQ(posted("/v1/completions", R"({"prompt":""})").response.status, 400U);
  EXPECT_EQ(posted("/v1/completions", R"({"prompt":[99999]})").json()["error"]["message"],
            "prompt has token 99999, but the vocabulary ends at 511");
  EXPECT_EQ(posted("/v1/completions", R"({"prompt":"x","logit_bias":{"512":1}})")
                .json()["error"]["param"],
            "logit_bias");
  EXPECT_EQ(posted("/v1/completions", R"({"prompt":"x","model":"gpt"})").json()["error"]["code"],
            "model_not_found");
  const Seen refused =
      posted("/v1/chat/completions", R"({"messages":[{"role":"user","content":"refuse me"}]})");
  EXPECT_EQ(refused.json()["error"]["param"], "messages");
  EXPECT_TRUE(service_.jobs.empty());
}

TEST_F(ApiTest, EchoesAPromptsLogprobsBeforeTheAnswers) {
  Seen seen;
  post(seen, "/v1/completions", R"({"prompt":"ab","echo":true,"logprobs":1})");
  ASSERT_EQ(service_.jobs.size(), 1U);
  EXPECT_TRUE(service_.jobs[0].prompt_logprobs);
  const auto& prompt = service_.jobs[0].prompt;
  engine::Piece reports = {.choice = 0, .of_prompt = true};
  for (const engine::Token token : prompt)
    reports.tokens.push_back({.chosen = {token, -1}, .top = {{token, -1}}});
  reports.tokens[0].chosen.logprob = std::numeric_limits<float>::quiet_NaN();
  service_.jobs[0].on_piece(reports);
  service_.jobs[0].on_piece({.text = "c",
                             .tokens = {{.chosen = {prompt.back(), -2}, .top = {}}},
                             .finish = engine::Finish::kLength});
  service_.jobs[0].on_end({});
  const Json choice = seen.json()["choices"][0];
  EXPECT_EQ(choice["text"], "abc");
  const Json& logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"].size(), prompt.size() + 1);
  EXPECT_EQ(logprobs["token_logprobs"][0], Json());
  EXPECT_EQ(logprobs["top_logprobs"][0], Json());
  EXPECT_EQ(logprobs["token_logprobs"].back(), -2.0);
  EXPECT_EQ(logprobs["text_offset"][0], 0);
}

TEST_F(ApiTest, AsksForAKeyButForHealth) {
  make(ApiKeys({"k"}));
  EXPECT_EQ(get("/health").response.status, 200U);
  EXPECT_EQ(get("/v1/models").response.status, 401U);
  EXPECT_EQ(get("/v1/models").json()["error"]["code"], "invalid_api_key");
  Seen seen;
  call(seen, {.method = "GET", .target = "/v1/models", .authorization = "Bearer k"});
  EXPECT_EQ(seen.response.status, 200U);
}

TEST_F(ApiTest, ShowsItsModelItsNumbersAndItsCache) {
  EXPECT_EQ(get("/v1/models").json()["data"][0]["id"], "tiny");
  EXPECT_EQ(get("/v1/models/tiny").json()["max_model_len"], 512);
  EXPECT_EQ(get("/kv").json()["stores"][0]["type"], "q8");
  counters_.requests = 42;
  const HttpResponse metrics = get("/metrics").response;
  EXPECT_NE(metrics.body.find("\nkvick_http_requests_total 42\n"), std::string::npos);
  EXPECT_NE(metrics.body.find("{end=\"finished\"} 7\n"), std::string::npos);
}

TEST_F(ApiTest, TokenizesAndBack) {
  const Json tokens = posted("/tokenize", R"({"prompt":"Hello there"})").json();
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  Json body;
  body["tokens"] = tokens["tokens"];
  EXPECT_EQ(posted("/detokenize", to_text(body).c_str()).json()["prompt"], "Hello there");
  EXPECT_EQ(posted("/detokenize", R"({"tokens":[512]})").response.status, 400U);
  EXPECT_EQ(posted("/tokenize", kHello).json()["tokens"],
            posted("/tokenize", R"({"prompt":"<user>Hi"})").json()["tokens"]);
}

TEST_F(ApiTest, IsDescribedRouteByRouteInItsOpenApiDocument) {
  const Json document = Json::parse(openapi_json());
  std::vector<std::string> described, there;
  for (const auto& [path, methods] : document["paths"].items())
    for (const auto& [method, operation] : methods.items())
      described.push_back(method + " " + path);
  for (const RouteName& route : Api::routes()) {
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(std::tolower(c));
    there.push_back(fmt::format("{} {}", method, route.path));
  }
  std::sort(described.begin(), described.end());
  std::sort(there.begin(), there.end());
  EXPECT_EQ(described, there);
  EXPECT_EQ(get("/openapi.json").response.body, openapi_json());
}

// Every field of the document is known to the parser, which says of others that they are not.
TEST_F(ApiTest, KnowsTheFieldsThatItsOpenApiDocumentNames) {
  const Json schemas = Json::parse(openapi_json())["components"]["schemas"];
  for (const auto& [path, schema] : {std::pair("/v1/completions", "CompletionRequest"),
                                     std::pair("/v1/chat/completions", "ChatRequest")})
    for (const auto& [field, type] : schemas[schema]["properties"].items()) {
      Json body;
      body["prompt"] = "x";
      body["messages"] = Json::parse(R"([{"role":"user","content":"x"}])");
      body.erase(std::string(path) == "/v1/completions" ? "messages" : "prompt");
      body[field] = Json::object({{"\x01", 1}});
      const Seen seen = posted(path, to_text(body).c_str());
      if (seen.answers == 0) continue;
      EXPECT_EQ(seen.response.body.find(fmt::format("\\\"{}\\\" is no field", field)),
                std::string::npos)
          << seen.response.body;
    }
}

}  // namespace
}  // namespace kvick::server
