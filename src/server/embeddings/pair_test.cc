#include "server/embeddings/pair.h"

#include <gtest/gtest.h>

#include "make_model/families.h"

#include "server/embeddings/embed_plan.h"
#include "server/testing/service.h"

namespace kvick::server {
namespace {

using Tokens = std::vector<text::Token>;

text::Vocabulary words() {
  text::Vocabulary v;
  v.model = "bert";
  v.pieces = {"[UNK]", "[CLS]", "[SEP]", "▁a", "▁b", "▁{", "▁}"};
  v.kinds = {text::TokenKind::kControl, text::TokenKind::kControl, text::TokenKind::kControl,
             text::TokenKind::kNormal,  text::TokenKind::kNormal,  text::TokenKind::kNormal,
             text::TokenKind::kNormal};
  v.unknown = 0, v.bos = 1, v.eos = v.separator = 2;
  v.add_bos = v.add_eos = true;
  return v;
}

TextPair pair_of(text::Vocabulary v, const char* query, const char* document) {
  return encode_pair(**text::Tokenizer::make(std::move(v)), query, document);
}

TEST(TextPair, StandsBetweenTheTokensOfBert) {
  const TextPair pair = pair_of(words(), "a", "b b");
  EXPECT_EQ(pair.tokens, (Tokens{1, 3, 2, 4, 4, 2}));
  EXPECT_EQ(pair.second, 3U);
}

TEST(TextPair, HasTwoSeparatorsWhereTheVocabularySaysSo) {
  text::Vocabulary v = words();
  v.add_separator = true;
  const TextPair pair = pair_of(v, "a", "b");
  EXPECT_EQ(pair.tokens, (Tokens{1, 3, 2, 2, 4, 2}));
  EXPECT_EQ(pair.second, 4U);
}

TEST(TextPair, FillsAPromptOnceAndLeavesBracesOfTheTexts) {
  text::Vocabulary v = words();
  v.pair_template = "a {query} b {document}[SEP]";
  EXPECT_EQ(pair_of(v, "b", "a").tokens, (Tokens{3, 4, 4, 3, 2}));
  const TextPair braces = pair_of(v, "{document}", "a");
  EXPECT_EQ(braces.tokens, (Tokens{3, 5, 0, 6, 4, 3, 2}));
  EXPECT_EQ(braces.second, braces.tokens.size());
}

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
  const TextPair first = encode_pair(reranker().tokenizer(), "q", "aa");
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
