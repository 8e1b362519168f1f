#include "server/embeddings/embed_plan.h"

#include <cstring>
#include <gtest/gtest.h>

#include "server/testing/service.h"

namespace kvick::server {
namespace {

EmbedContext context() {
  return {.engine = test_engine(),
          .pooling = {},
          .model = "tiny",
          .random = [] { return uint64_t{5}; },
          .unix_time = [] { return int64_t{1000}; }};
}

using MakePlan = ApiResult<EmbedPlan> (*)(const Json&, UnknownFields&, const EmbedContext&);

ApiResult<EmbedPlan> plan(MakePlan make, const char* body) {
  UnknownFields unknown(true);
  return make(*parse_json(body), unknown, context());
}

// The slow twin of base64_of(): writes the bytes as bits, then takes six bits per digit.
std::string by_bits(const std::vector<float>& vector) {
  std::string bits, text;
  for (const float value : vector) {
    unsigned char bytes[4];
    std::memcpy(bytes, &value, 4);
    for (const unsigned char byte : bytes)
      for (int bit = 7; bit >= 0; --bit) bits += (byte >> bit & 1) != 0 ? '1' : '0';
  }
  while (bits.size() % 6 != 0) bits += '0';
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bits.size(); i += 6)
    text += digits[std::stoul(bits.substr(i, 6), nullptr, 2)];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

TEST(Base64, HasTheFloatsBytesInGroupsOfThree) {
  EXPECT_EQ(base64_of({}), "");
  EXPECT_EQ(base64_of(std::vector<float>{1}), "AACAPw==");
  std::vector<float> vector;
  for (int i = 0; i < 7; ++i) {
    vector.push_back(static_cast<float>(i) * -3.7F + 0.01F);
    EXPECT_EQ(base64_of(vector), by_bits(vector));
  }
}

TEST(EmbeddingsPlan, TakesTextsAndTokensOneOrSeveral) {
  const auto& tokenizer = test_engine().tokenizer();
  const auto texts = [](const char* body) { return plan(plan_embeddings, body)->texts.texts; };
  using Texts = std::vector<std::vector<engine::Token>>;
  EXPECT_EQ(texts(R"({"input":"ab"})"), (Texts{tokenizer.encode("ab", true, true)}));
  EXPECT_EQ(texts(R"({"input":["a","b"],"user":"me"})"),
            (Texts{tokenizer.encode("a", true, true), tokenizer.encode("b", true, true)}));
  EXPECT_EQ(texts(R"({"input":[3,4]})"), (Texts{{3, 4}}));
  EXPECT_EQ(texts(R"({"input":[[3,4],[5]],"model":"tiny"})"), (Texts{{3, 4}, {5}}));
}

TEST(EmbeddingsPlan, PoolsAsTheServerSaysElseByTheLastToken) {
  UnknownFields unknown(true);
  EmbedContext given = context();
  const Json body = {{"input", "a"}};
  EXPECT_EQ(plan_embeddings(body, unknown, given)->texts.pooling, engine::Pooling::kLast);
  given.pooling = engine::Pooling::kMean;
  EXPECT_EQ(plan_embeddings(body, unknown, given)->texts.pooling, engine::Pooling::kMean);
}

struct Refused {
  MakePlan make;
  const char *body, *param, *says;
};

TEST(EmbedPlan, SaysWhatIsWrongWithARequest) {
  const Refused table[] = {
      {plan_embeddings, "[]", "", "must be a JSON object"},
      {plan_embeddings, "{}", "input", "missing"},
      {plan_embeddings, R"({"input":5})", "input", "a string, a list of strings"},
      {plan_embeddings, R"({"input":[]})", "input", "empty"},
      {plan_embeddings, R"({"input":["a",[]]})", "input", "empty"},
      {plan_embeddings, R"({"input":["a",5]})", "input", "a string, a list of strings"},
      {plan_embeddings, R"({"input":[-1]})", "input", "no token id"},
      {plan_embeddings, R"({"input":[[99999]]})", "input", "the vocabulary ends at"},
      {plan_embeddings, R"({"input":"a","encoding_format":"hex"})", "encoding_format", "base64"},
      {plan_embeddings, R"({"input":"a","dimensions":0})", "dimensions", "from 1 to 64"},
      {plan_embeddings, R"({"input":"a","dimensions":65})", "dimensions", "from 1 to 64"},
      {plan_embeddings, R"({"input":"a","colour":1})", "colour", "leave it out"},
      {plan_rerank, R"({"documents":["a"]})", "query", "missing"},
      {plan_rerank, R"({"query":"q"})", "documents", "a list of at least one"},
      {plan_rerank, R"({"query":"q","documents":[]})", "documents", "a list of at least one"},
      {plan_rerank, R"({"query":"q","documents":["a",5]})", "documents[1]", "must be a string or"},
      {plan_rerank, R"({"query":"q","documents":[{"txt":"a"}]})", "documents[0].text",
       "must be a string"},
      {plan_rerank, R"({"query":"q","documents":["a"],"top_n":0})", "top_n", "from 1"},
      {plan_score, R"({"text_1":"a"})", "text_2", "missing"},
      {plan_score, R"({"text_1":["a","b"],"text_2":["c","d","e"]})", "text_1", "as many"},
  };
  for (const Refused& one : table) {
    SCOPED_TRACE(one.body);
    const auto made = plan(one.make, one.body);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().status, 400u);
    EXPECT_EQ(made.error().param, one.param);
    EXPECT_NE(made.error().message.find(one.says), std::string::npos) << made.error().message;
  }
}

// For any value of any field, the request is accepted or refused with one line.
TEST(EmbedPlan, TakesOrRefusesAnyValueOfAnyField) {
  const Json values[] = {nullptr,
                         true,
                         -1,
                         1,
                         1e300,
                         "",
                         "a",
                         Json::array(),
                         Json::object(),
                         Json::parse("[null]"),
                         Json::parse("[[]]"),
                         Json::parse("[[[1]]]"),
                         Json::parse(R"(["a",{"text":5}])"),
                         Json::parse("[1.5]"),
                         Json::parse("[18446744073709551615]"),
                         Json::parse(R"([{"text":"a"}])"),
                         Json::parse(R"(["\ud83d\ude00",""])"),
                         Json::parse("[2147483648,1]")};
  const struct {
    MakePlan make;
    Json good;
  } requests[] = {{plan_embeddings,
                   {{"model", "m"},
                    {"input", "a"},
                    {"encoding_format", "float"},
                    {"dimensions", 8},
                    {"user", "u"}}},
                  {plan_rerank,
                   {{"model", "m"},
                    {"query", "q"},
                    {"documents", {"a", "b"}},
                    {"top_n", 1},
                    {"return_documents", true}}},
                  {plan_score, {{"model", "m"}, {"text_1", "a"}, {"text_2", "b"}}}};
  for (const auto& request : requests) {
    UnknownFields unknown(true);
    EXPECT_TRUE(request.make(request.good, unknown, context()).ok()) << to_text(request.good);
    for (const auto& [field, good] : request.good.items())
      for (const Json& value : values) {
        Json body = request.good;
        body[field] = value;
        const auto made = request.make(body, unknown, context());
        if (made.ok()) {
          for (const auto& text : made->texts.texts) EXPECT_FALSE(text.empty()) << to_text(body);
          continue;
        }
        EXPECT_EQ(made.error().status, 400u) << to_text(body);
        EXPECT_FALSE(made.error().message.empty());
        EXPECT_EQ(made.error().message.find('\n'), std::string::npos) << made.error().message;
      }
  }
}

TEST(EmbedPlan, TakesABoundedNumberOfTexts) {
  Json many = Json::array();
  for (size_t i = 0; i < kMostTexts; ++i) many.push_back("a");
  UnknownFields unknown(true);
  EXPECT_TRUE(plan_embeddings({{"input", many}}, unknown, context()).ok());
  EXPECT_TRUE(plan_rerank({{"query", "q"}, {"documents", many}}, unknown, context()).ok());
  many.push_back("a");
  for (const auto& made : {plan_embeddings({{"input", many}}, unknown, context()),
                           plan_rerank({{"query", "q"}, {"documents", many}}, unknown, context()),
                           plan_score({{"text_1", "q"}, {"text_2", many}}, unknown, context())}) {
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message.find("at most 2048 are taken"), std::string::npos)
        << made.error().message;
  }
}

}  // namespace
}  // namespace kvick::server
