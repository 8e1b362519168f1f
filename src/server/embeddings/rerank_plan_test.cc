// Requests to rank documents with a model that scores pairs.

#include <gtest/gtest.h>

#include "make_model/families.h"

#include "engine/answer/pair.h"
#include "server/embeddings/embed_plan.h"
#include "server/testing/service.h"

namespace kvick::server {
namespace {

const engine::Engine& reranker() {
  static const auto engine = [] {
    tools::Spec spec = *tools::made_family("bert-rank");
    spec.layers = 1;
    return engine::engine_of(spec);
  }();
  return *engine;
}

EmbedContext context() {
  return {.engine = reranker(),
          .pooling = {},
          .model = "ranks",
          .random = [] { return uint64_t{5}; },
          .unix_time = [] { return int64_t{1000}; }};
}

TEST(RerankPlan, GivesAModelThatScoresPairsEachDocumentWithTheQuery) {
  UnknownFields unknown(true);
  const auto plan = plan_rerank(
      *parse_json(R"({"query":"q","documents":["aa","b","c"],"top_n":2})"), unknown, context());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->texts.pooling, engine::Pooling::kRank);
  ASSERT_EQ(plan->texts.texts.size(), 3U);
  const engine::TextPair first = engine::encode_pair(reranker().tokenizer(), "q", "aa");
  EXPECT_EQ(plan->texts.texts[0], first.tokens);
  EXPECT_EQ(plan->texts.seconds[0], first.second);
  const Json answer =
      *parse_json(plan->answer({.vectors = {{0.25F}, {0.75F}, {0.5F}}, .tokens = 9}));
  ASSERT_EQ(answer["results"].size(), 2U);
  EXPECT_EQ(answer["results"][0]["index"], 1);
  EXPECT_EQ(answer["results"][0]["relevance_score"], 0.75);
  EXPECT_EQ(answer["results"][1]["index"], 2);
}

TEST(ScorePlan, GivesItPairsOfTextsAndNoTokens) {
  UnknownFields unknown(true);
  const auto plan =
      plan_score(*parse_json(R"({"text_1":"q","text_2":["a","b"]})"), unknown, context());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->texts.texts.size(), 2U);
  const Json answer = *parse_json(plan->answer({.vectors = {{0.25F}, {0.75F}}, .tokens = 9}));
  EXPECT_EQ(answer["data"][1]["score"], 0.75);
  const auto tokens =
      plan_score(*parse_json(R"({"text_1":"q","text_2":[3,4]})"), unknown, context());
  ASSERT_FALSE(tokens.ok());
  EXPECT_EQ(tokens.error().param, "text_2");
}

TEST(EmbeddingsPlan, IsRefusedByAModelThatScoresPairsUnlessAPoolingIsGiven) {
  UnknownFields unknown(true);
  const Json body = {{"input", "a"}};
  const auto plan = plan_embeddings(body, unknown, context());
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("/v1/rerank"), std::string::npos);
  EmbedContext given = context();
  given.pooling = engine::Pooling::kMean;
  EXPECT_TRUE(plan_embeddings(body, unknown, given).ok());
}

}  // namespace
}  // namespace kvick::server
