// Fields and model names that the API does not know, and what routers ask of it.

#include <gtest/gtest.h>

#include "server/testing/api.h"

namespace kvick::server {
namespace {

constexpr const char* kPath = "/v1/completions";
constexpr const char* kOdd = R"({"prompt":"x","odd":1,"kv":{"strange":2}})";

TEST_F(ApiTest, NamesTheFieldsThatItIgnoresInTheAnswer) {
  Seen whole;
  post(whole, kPath, kOdd);
  answer(0), end(0);
  EXPECT_EQ(whole.response.status, 200U);
  EXPECT_EQ(whole.ignored(), "kv.strange, odd");
  Seen stream;
  post(stream, kPath, R"({"prompt":"x","odd":1,"stream":true})");
  EXPECT_TRUE(stream.streaming);
  EXPECT_EQ(stream.ignored(), "odd");
  Seen plain;
  post(plain, kPath, R"({"prompt":"x"})");
  answer(2), end(2);
  EXPECT_EQ(plain.ignored(), "");
}

TEST_F(ApiTest, NamesTheFieldsThatItIgnoresInErrors) {
  service_.refuse_from = 0;
  service_.refusal = {engine::Refusal::Why::kBusy, "full", ""};
  const Seen busy = posted(kPath, kOdd);
  EXPECT_EQ(busy.response.status, 429U);
  EXPECT_EQ(busy.ignored(), "kv.strange, odd");
  EXPECT_EQ(busy.response.headers.size(), 2U);  // beside Retry-After
  EXPECT_EQ(posted(kPath, R"({"prompt":"","odd":1})").ignored(), "odd");
}

TEST_F(ApiTest, NamesTheFieldsThatItIgnoresWhereItCountsTokens) {
  const Seen tokens = posted("/tokenize", R"({"prompt":"x","odd":1,"return_token_ids":false})");
  EXPECT_EQ(tokens.response.status, 200U);
  EXPECT_EQ(tokens.ignored(), "odd");
  EXPECT_EQ(posted("/detokenize", R"({"tokens":[1],"even":1})").ignored(), "even");
}

TEST_F(ApiTest, LogsEachIgnoredFieldOnce) {
  posted(kPath, kOdd);
  posted(kPath, kOdd);
  posted("/tokenize", R"({"prompt":"x","odd":1})");
  ASSERT_EQ(reports_.size(), 2U);
  EXPECT_NE(reports_[0].find("the unknown field kv.strange"), std::string::npos);
  EXPECT_NE(reports_[1].find("the unknown field odd"), std::string::npos);
}

TEST_F(ApiTest, RefusesUnknownFieldsWhereItIsStrict) {
  make([](ApiOptions& options) { options.strict_fields = true; });
  for (const char* path : {"/v1/completions", "/tokenize"}) {
    const Seen seen = posted(path, R"({"prompt":"x","odd":1})");
    EXPECT_EQ(seen.response.status, 400U);
    EXPECT_EQ(seen.json()["error"]["param"], "odd");
    EXPECT_EQ(seen.ignored(), "");
  }
  EXPECT_TRUE(service_.jobs.empty() && reports_.empty());
}

TEST_F(ApiTest, KeepsCheckingTheFieldsThatItKnows) {
  EXPECT_EQ(posted(kPath, R"({"prompt":"x","odd":1,"n":"2"})").json()["error"]["param"], "n");
  EXPECT_EQ(posted(kPath, R"({"prompt":"x","skip_special_tokens":1})").response.status, 200U);
  EXPECT_EQ(posted(kPath, R"({"prompt":"x","ignore_eos":1})").response.status, 400U);
}

// The SGLang gateway puts "unknown" where a request names no model.
TEST_F(ApiTest, TakesRequestsThatNameNoModelOrAGatewaysPlaceholder) {
  for (const char* body :
       {R"({"prompt":"x"})", R"({"prompt":"x","model":""})", R"({"prompt":"x","model":"unknown"})"})
    EXPECT_EQ(posted(kPath, body).answers, 0) << body;
  EXPECT_EQ(service_.jobs.size(), 3U);
  EXPECT_EQ(get("/v1/models/unknown").response.status, 404U);
}

TEST_F(ApiTest, TakesAnyModelsNameWhereThatIsAsked) {
  constexpr const char* kOther = R"({"prompt":"x","model":"gpt-4o"})";
  EXPECT_EQ(posted(kPath, kOther).response.status, 404U);
  make([](ApiOptions& options) { options.any_model = true; });
  Seen seen;
  post(seen, kPath, kOther);
  answer(0), end(0);
  EXPECT_EQ(seen.json()["model"], "tiny");
  EXPECT_EQ(get("/v1/models/gpt-4o").response.status, 404U);
}

TEST_F(ApiTest, TellsRoutersWhatItServes) {
  for (const char* path : {"/server_info", "/get_server_info"}) {
    const Json info = get(path).json();
    EXPECT_EQ(info["served_model_name"], "tiny");
    EXPECT_EQ(info["model_path"], "tiny");
    EXPECT_EQ(info["dp_size"], 1);
    EXPECT_EQ(info["context_length"], 512);
    EXPECT_TRUE(info["version"].is_string());
  }
  for (const char* path : {"/model_info", "/get_model_info"}) {
    const Json info = get(path).json();
    EXPECT_EQ(info["model_path"], "tiny");
    EXPECT_EQ(info["is_generation"], true);
    EXPECT_EQ(info["model_type"], "llama");
  }
}

TEST_F(ApiTest, TellsRoutersItsLoadInTheirForm) {
  service_.counts = {.waiting = 2, .running = 3, .preempted = 1, .job_tokens = 70};
  EXPECT_EQ(get("/get_load").json(),
            Json::parse(R"([{"dp_rank":0,"num_reqs":6,"num_waiting_reqs":3,"num_tokens":70}])"));
  make([](ApiOptions& options) { options.load_form = LoadForm::kVllm; });
  EXPECT_EQ(get("/get_load").json(), Json::parse(R"({"load":6})"));
}

TEST_F(ApiTest, AsksRoutersForTheKeyToo) {
  make([](ApiOptions& options) { options.keys = ApiKeys({"k"}); });
  for (const char* path : {"/server_info", "/model_info", "/get_load"})
    EXPECT_EQ(get(path).response.status, 401U) << path;
}

}  // namespace
}  // namespace kvick::server
