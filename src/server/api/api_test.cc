// Requests to the API and their answers.

#include "server/testing/api.h"

#include <gtest/gtest.h>
#include <limits>
#include <set>

#include "server/api/static_files.h"

namespace kvick::server {
namespace {

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
  EXPECT_EQ(service_.jobs[0].sampling.seed, 5U);
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

TEST_F(ApiTest, GivesEachPromptAndEachChoiceASeedOfItsOwn) {
  const auto seeds = [&](const char* body) {
    service_.jobs.clear();
    posted("/v1/completions", body);
    std::vector<uint64_t> all;
    for (const engine::Job& job : service_.jobs)
      for (uint32_t choice = 0; choice < job.choices; ++choice)
        all.push_back(job.sampling.seed + choice);
    return all;
  };
  const auto all = seeds(R"({"prompt":["a","a","a","a"],"n":16,"seed":5})");
  ASSERT_EQ(all.size(), 64U);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 64U);
  EXPECT_EQ(all[0], 5U);
  EXPECT_EQ(seeds(R"({"prompt":["a","a","a","a"],"n":16,"seed":5})"), all);
  // A prompt's seed depends only on its index.
  EXPECT_EQ(seeds(R"({"prompt":["b","c"],"seed":5})"), (std::vector{all[0], all[16]}));
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
  const std::string prompt = test_engine().tokenizer().decode(service_.jobs[0].prompt, true);
  EXPECT_TRUE(prompt.starts_with("<system>You can call these tools:\n{\"name\":\"f\"}\n"))
      << prompt;
  EXPECT_TRUE(prompt.ends_with("<user>Hi[1 tools]")) << prompt;
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

constexpr const char* kForced = R"("tool_choice":"required","tools":[{"type":"function",
    "function":{"name":"f"}}],"messages":[{"role":"user","content":"Hi"}],"max_tokens":3)";

// Writes a required tool call that max_tokens cut off.
void write_cut_call(const engine::Job& job) {
  job.on_piece({.text = R"({"name":"f","argum)"});
  job.on_piece({.text = R"(ents":{"x")", .finish = engine::Finish::kLength});
  job.on_end({.prompt_tokens = 5, .generated_tokens = 3, .error = {}});
}

class ForcedCalls : public ApiTest {
 protected:
  void SetUp() override {
    make([](ApiOptions& options) {
      options.constraint = [](const Json&) {
        return std::shared_ptr<const text::Constraint>(std::make_shared<AnyText>());
      };
    });
  }
};

TEST_F(ForcedCalls, ThatAreCutOffAreCallsWithTheBeginningOfTheirArguments) {
  Seen seen;
  post(seen, "/v1/chat/completions", fmt::format("{{{}}}", kForced).c_str());
  write_cut_call(service_.jobs.at(0));
  const Json choice = seen.json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"],
            Json::parse(R"({"name":"f","arguments":"{\"x\""})"));
  EXPECT_EQ(seen.json()["usage"]["completion_tokens"], 3);
}

TEST_F(ForcedCalls, ThatAreCutOffAreTheSameInAStream) {
  Seen seen;
  post(seen, "/v1/chat/completions",
       fmt::format(R"({{{},"stream":true,"stream_options":{{"include_usage":true}}}})", kForced)
           .c_str());
  write_cut_call(service_.jobs.at(0));
  std::string deltas, usage;
  std::string line;
  for (std::istringstream in(seen.events); std::getline(in, line);) {
    if (!line.starts_with("data: {")) continue;
    const Json chunk = Json::parse(line.substr(6));
    if (chunk["choices"].empty()) usage = to_text(chunk["usage"]["completion_tokens"]);
    for (const Json& choice : chunk["choices"])
      deltas += to_text(choice["delta"]) + to_text(choice["finish_reason"]);
  }
  EXPECT_EQ(deltas, R"({"role":"assistant","content":""}null{"tool_calls":[{"index":0,"id":)"
                    R"("OncjoDCgq","type":"function","function":)"
                    R"({"name":"f","arguments":"{\"x\""}}]}null{}"length")");
  EXPECT_EQ(usage, "3");
}

TEST_F(ForcedCalls, ThatEndWithTheLastTokenAreWhole) {
  Seen seen;
  post(seen, "/v1/chat/completions", fmt::format("{{{}}}", kForced).c_str());
  service_.jobs.at(0).on_piece(
      {.text = R"({"name":"f","arguments":{}})", .finish = engine::Finish::kLength});
  end(0);
  EXPECT_EQ(seen.json()["choices"][0]["finish_reason"], "tool_calls");
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
       {std::pair(Why::kInvalid, 400U), {Why::kTooLarge, 400U}, {Why::kBusy, 503U}}) {
    service_.refuse_from = service_.jobs.size();
    service_.refusal = {why, "no", "max_tokens"};
    const Seen seen = posted("/v1/chat/completions", kHello);
    EXPECT_EQ(seen.response.status, status);
    EXPECT_EQ(seen.json()["error"]["param"], "max_tokens");
    EXPECT_EQ(seen.response.headers.empty(), why != Why::kBusy);
  }
}

TEST_F(ApiTest, SaysThatAPromptIsTooLongAsOpenAiDoes) {
  for (const auto& [path, body, param] :
       {std::tuple("/v1/chat/completions", kHello, "messages"),
        std::tuple("/v1/completions", R"({"prompt":"x"})", "prompt")}) {
    service_.refuse_from = service_.jobs.size();
    service_.refusal = {engine::Refusal::Why::kTooLong, "too long", "prompt"};
    const Seen seen = posted(path, body);
    EXPECT_EQ(seen.response.status, 400U);
    EXPECT_EQ(seen.json(), Json::parse(fmt::format(
                               R"({{"error":{{"message":"too long","type":"invalid_request_error",
                               "param":"{}","code":"context_length_exceeded"}}}})",
                               param)));
  }
}

TEST_F(ApiTest, TakesAllPromptsOrNone) {
  service_.refuse_from = 1;
  service_.refusal = {engine::Refusal::Why::kBusy, "full", ""};
  const Seen seen = posted("/v1/completions", R"({"prompt":["a","b"],"stream":true})");
  EXPECT_EQ(seen.response.status, 503U);
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
  engine::AnswerPiece reports = {.choice = 0, .of_prompt = true};
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
  make([](ApiOptions& options) { options.keys = ApiKeys({"k"}); });
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

// The parser knows every field of the document; it refuses unknown ones.
TEST_F(ApiTest, KnowsTheFieldsThatItsOpenApiDocumentNames) {
  make([](ApiOptions& options) { options.strict_fields = true; });
  const Json schemas = Json::parse(openapi_json())["components"]["schemas"];
  for (const auto& [path, schema] :
       {std::pair("/v1/completions", "CompletionRequest"),
        std::pair("/v1/chat/completions", "ChatRequest"),
        std::pair("/v1/embeddings", "EmbeddingRequest"), std::pair("/v1/rerank", "RerankRequest"),
        std::pair("/score", "ScoreRequest")})
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
