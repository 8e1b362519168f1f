// Requests for embeddings and their answers.

#include <gtest/gtest.h>

#include "server/testing/api.h"

namespace kvick::server {
namespace {

class EmbeddingsApi : public ApiTest {
 protected:
  void give(size_t job, std::vector<float> vector) {
    service_.jobs.at(job).on_end({.prompt_tokens = 4, .error = {}, .embedding = std::move(vector)});
  }
};

TEST_F(EmbeddingsApi, AnswersInOpenAisForm) {
  Seen seen;
  post(seen, "/v1/embeddings", R"({"model":"tiny","input":["a","b"]})");
  ASSERT_EQ(service_.jobs.size(), 2u);
  EXPECT_EQ(service_.jobs[0].pooling, engine::Pooling::kLast);
  give(1, {0, -0.25F});
  EXPECT_EQ(seen.answers, 0);
  give(0, {3, 4});
  EXPECT_EQ(seen.answers, 1);
  EXPECT_EQ(seen.json(), Json::parse(R"({"object":"list","data":[
      {"object":"embedding","index":0,"embedding":[0.6,0.8]},
      {"object":"embedding","index":1,"embedding":[0.0,-1.0]}],
      "model":"tiny","usage":{"prompt_tokens":8,"total_tokens":8}})"));
}

TEST_F(EmbeddingsApi, GivesTheBytesOfTheFloatsWhereTheyAreAskedFor) {
  Seen seen;
  post(seen, "/v1/embeddings", R"({"input":"a","encoding_format":"base64"})");
  give(0, {7, 0});
  EXPECT_EQ(seen.json()["data"][0]["embedding"], "AACAPwAAAAA=");
}

TEST_F(EmbeddingsApi, ShortensVectorsAndGivesThemTheLengthOneAgain) {
  Seen seen;
  post(seen, "/v1/embeddings", R"({"input":"a","dimensions":2})");
  give(0, {3, 4, 12});
  EXPECT_EQ(seen.json()["data"][0]["embedding"], Json::parse("[0.6,0.8]"));
}

TEST_F(EmbeddingsApi, PoolsAsTheServerWasToldTo) {
  make([](ApiOptions& options) { options.pooling = engine::Pooling::kMean; });
  Seen seen;
  post(seen, "/v1/embeddings", R"({"input":"a"})");
  EXPECT_EQ(service_.jobs.at(0).pooling, engine::Pooling::kMean);
}

TEST_F(EmbeddingsApi, RefusesAnotherModelAndNamesFieldsThatItIgnores) {
  const Seen other = posted("/v1/embeddings", R"({"model":"huge","input":"a"})");
  EXPECT_EQ(other.response.status, 404u);
  EXPECT_EQ(other.json()["error"]["code"], "model_not_found");
  EXPECT_TRUE(service_.jobs.empty());
  Seen seen;
  post(seen, "/v1/embeddings", R"({"input":"a","colour":1,"user":"me"})");
  give(0, {1});
  EXPECT_EQ(seen.response.status, 200u);
  EXPECT_EQ(seen.ignored(), "colour");
}

TEST_F(EmbeddingsApi, AnswersInOllamasForm) {
  Seen several, one;
  post(several, "/api/embed", R"({"model":"tiny:latest","input":["a","b"],"keep_alive":"5m"})");
  seconds_ = 2;
  give(0, {3, 4});
  give(1, {0, -0.25F});
  EXPECT_EQ(several.json(), Json::parse(R"({"model":"tiny:latest","embeddings":[[0.6,0.8],[0,-1]],
      "total_duration":2000000000,"load_duration":0,"prompt_eval_count":8})"));
  post(one, "/api/embeddings", R"({"model":"tiny","prompt":"a"})");
  give(2, {3, 4});
  EXPECT_EQ(one.json(), Json::parse(R"({"embedding":[3,4]})"));
}

TEST_F(EmbeddingsApi, AnswersOllamaWhoAsksForNothingAtOnce) {
  for (const char* body :
       {R"({"model":"tiny","input":""})", R"({"model":"tiny","input":[]})", R"({"model":"tiny"})"})
    EXPECT_EQ(posted("/api/embed", body).json()["embeddings"], Json::array()) << body;
  EXPECT_EQ(posted("/api/embeddings", R"({"model":"tiny","prompt":""})").json(),
            Json::parse(R"({"embedding":[]})"));
  EXPECT_TRUE(service_.jobs.empty());
}

TEST_F(EmbeddingsApi, CutsTextsOffForOllamaUnlessToldNotTo) {
  const Json body = {{"input", std::string(4000, 'a')}};
  Seen cut, whole;
  post(cut, "/api/embed", to_text(body).c_str());
  EXPECT_EQ(service_.jobs.at(0).prompt.size(), service_.context());
  Json all = body;
  all["truncate"] = false;
  post(whole, "/api/embed", to_text(all).c_str());
  EXPECT_GT(service_.jobs.at(1).prompt.size(), service_.context());
}

TEST_F(EmbeddingsApi, TellsOllamasClientsInTheirForm) {
  const Seen other = posted("/api/embed", R"({"model":"huge","input":"a"})");
  EXPECT_EQ(other.response.status, 404u);
  EXPECT_TRUE(other.json()["error"].is_string());
  EXPECT_EQ(posted("/api/embed", R"({"input":["a",""]})").response.status, 400u);
  EXPECT_EQ(posted("/api/embeddings", R"({"prompt":["a","b"]})").response.status, 400u);
}

TEST_F(EmbeddingsApi, TakesNoneWhileTheServerDrains) {
  counters_.draining = true;
  for (const char* path :
       {"/v1/embeddings", "/v1/rerank", "/rerank", "/score", "/api/embed", "/api/embeddings"}) {
    const auto refused = api_->refuses(
        {.method = "POST", .target = path, .content_type = "application/json", .body = ""});
    ASSERT_TRUE(refused.has_value()) << path;
    EXPECT_EQ(refused->status, 503u);
  }
}

TEST_F(EmbeddingsApi, RanksDocumentsByTheCosine) {
  for (const char* path : {"/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"}) {
    service_.jobs.clear();
    Seen seen;
    post(seen, path, R"({"query":"q","documents":["a",{"text":"b"},"c"],"top_n":2,
                         "return_documents":true})");
    ASSERT_EQ(service_.jobs.size(), 4u);
    give(0, {2, 0});
    give(1, {0, 1});
    give(2, {5, 0});
    give(3, {3, 4});
    const Json body = seen.json();
    EXPECT_EQ(body["model"], "tiny");
    EXPECT_EQ(body["usage"]["total_tokens"], 16);
    EXPECT_EQ(body["results"],
              Json::parse(R"([{"index":1,"relevance_score":1.0,"document":{"text":"b"}},
                              {"index":2,"relevance_score":0.6,"document":{"text":"c"}}])"));
  }
}

TEST_F(EmbeddingsApi, RepeatsNoDocumentUnlessItIsAskedTo) {
  Seen seen;
  post(seen, "/rerank", R"({"query":"q","documents":["a"]})");
  give(0, {1, 0});
  give(1, {0, 1});
  EXPECT_EQ(seen.json()["results"], Json::parse(R"([{"index":0,"relevance_score":0.0}])"));
}

TEST_F(EmbeddingsApi, ScoresOneTextAgainstSeveralOrPairs) {
  Seen one, pairs;
  post(one, "/score", R"({"text_1":"q","text_2":["a","b"]})");
  give(0, {1, 0});
  give(1, {0, 2});
  give(2, {-3, 0});
  EXPECT_EQ(one.json()["data"], Json::parse(R"([{"index":0,"object":"score","score":0.0},
                                                {"index":1,"object":"score","score":-1.0}])"));
  service_.jobs.clear();
  post(pairs, "/v1/score", R"({"text_1":["p","q"],"text_2":["a","b"]})");
  give(0, {1, 0});
  give(1, {0, 1});
  give(2, {1, 0});
  give(3, {0, 9});
  EXPECT_EQ(pairs.json()["data"][0]["score"], 1.0);
  EXPECT_EQ(pairs.json()["data"][1]["score"], 1.0);
  EXPECT_EQ(pairs.json()["object"], "list");
}

TEST_F(EmbeddingsApi, SaysWhatTheEngineRefuses) {
  service_.refuse_from = 0;
  service_.refusal = {
      .why = engine::Refusal::Why::kBusy, .message = "256 requests are waiting", .field = ""};
  const Seen seen = posted("/v1/embeddings", R"({"input":"a"})");
  EXPECT_EQ(seen.response.status, 503u);
  EXPECT_EQ(seen.json()["error"]["message"], "256 requests are waiting");
}

}  // namespace
}  // namespace kvick::server
