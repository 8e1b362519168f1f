// POST /v1/rerank and /score: the model scores pairs of texts, or texts are compared by the cosine
// of their embeddings.

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "engine/answer/pair.h"
#include "server/embeddings/embed_plan.h"
#include "server/embeddings/usage.h"
#include "server/request/fields.h"
#include "server/request/prompts.h"

namespace kvick::server {
namespace {

struct RerankAnswer {
  std::string id, model;
  size_t most = 0;                     // limit on the documents in the answer
  std::vector<std::string> documents;  // empty: the answer does not repeat the documents
  bool pairs = false;                  // the model scored pairs
};

// Returns the score of each document. Without pairs the first vector is the query's.
std::vector<double> scores_of(const RerankAnswer& answer, const Embeddings& embeddings) {
  std::vector<double> scores;
  for (const std::vector<float>& vector : embeddings.vectors)
    scores.push_back(answer.pairs ? vector.front()
                                  : engine::cosine(embeddings.vectors.front(), vector));
  if (!answer.pairs) scores.erase(scores.begin());
  return scores;
}

std::string answer_with(const RerankAnswer& answer, const Embeddings& embeddings) {
  const std::vector<double> scores = scores_of(answer, embeddings);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), answer.most));
  Json results = Json::array();
  for (const size_t i : order) {
    Json result = {{"index", i}, {"relevance_score", scores[i]}};
    if (!answer.documents.empty()) result["document"] = {{"text", answer.documents[i]}};
    results.push_back(std::move(result));
  }
  return to_text({{"id", answer.id},
                  {"object", "rerank"},
                  {"model", answer.model},
                  {"results", std::move(results)},
                  {"usage", usage_json(embeddings.tokens)}});
}

ApiResult<std::string> read_document(const Json& value, const std::string& name,
                                     const Fields& fields) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object())
    return bad_field(name, R"({} must be a string or an object {{"text": string}})", name);
  KVICK_TRY(Fields document, fields.inside(value, name));
  const Json* text = document.find("text");
  if (text == nullptr || !text->is_string())
    return bad_field(document.path("text"), "{} must be a string", document.path("text"));
  KVICK_TRY_VOID(document.check_rest());
  return text->get<std::string>();
}

ApiResult<std::vector<std::string>> read_documents(Fields& fields) {
  const Json* list = fields.find("documents");
  if (list == nullptr || !list->is_array() || list->empty())
    return bad_field("documents", "documents must be a list of at least one text");
  if (list->size() > kMostTexts)
    return bad_field("documents", "documents has {} texts; at most {} are taken", list->size(),
                     kMostTexts);
  std::vector<std::string> documents;
  for (size_t i = 0; i < list->size(); ++i) {
    KVICK_TRY(std::string document,
              read_document((*list)[i], fmt::format("documents[{}]", i), fields));
    documents.push_back(std::move(document));
  }
  return documents;
}

ApiStatus add_text(const Prompt& text, const std::string& name, const engine::Engine& engine,
                   TextsToEmbed& texts) {
  KVICK_TRY(std::vector<engine::Token> tokens, prompt_tokens(text, name, engine));
  texts.texts.push_back(std::move(tokens));
  return base::Done{};
}

engine::Pooling pooling_of(const EmbedContext& context) {
  return engine::pooling_of(context.engine.model().config(), context.pooling);
}

// Returns whether the model reads a query and a document together.
bool reads_pairs(const EmbedContext& context) {
  return pooling_of(context) == engine::Pooling::kRank && context.engine.model().scores_pairs();
}

void add_pair(const std::string& query, const std::string& document, const engine::Engine& engine,
              TextsToEmbed& texts) {
  engine::TextPair pair = engine::encode_pair(engine.tokenizer(), query, document);
  texts.texts.push_back(std::move(pair.tokens));
  texts.seconds.push_back(pair.second);
}

struct ScoreAnswer {
  std::string id, model;
  int64_t created = 0;
  size_t left = 1;     // number of texts in text_1: 1, or as many as in text_2
  bool pairs = false;  // the model scored pairs
};

std::string answer_with(const ScoreAnswer& answer, const Embeddings& embeddings) {
  const size_t others = answer.pairs ? 0 : answer.left;
  const auto left = std::span(embeddings.vectors).first(others);
  const auto right = std::span(embeddings.vectors).subspan(others);
  Json data = Json::array();
  for (size_t i = 0; i < right.size(); ++i) {
    const double score =
        answer.pairs ? right[i].front() : engine::cosine(left[answer.left > 1 ? i : 0], right[i]);
    data.push_back({{"index", i}, {"object", "score"}, {"score", score}});
  }
  return to_text({{"id", answer.id},
                  {"object", "list"},
                  {"created", answer.created},
                  {"model", answer.model},
                  {"data", std::move(data)},
                  {"usage", usage_json(embeddings.tokens)}});
}

// Adds the query and documents of /v1/rerank, as texts to compare or as pairs to score.
ApiStatus add_documents(const std::string& query, std::span<const std::string> documents,
                        const EmbedContext& context, TextsToEmbed& texts) {
  const engine::Engine& engine = context.engine;
  if (reads_pairs(context)) {
    for (const std::string& document : documents) add_pair(query, document, engine, texts);
    return base::Done{};
  }
  KVICK_TRY_VOID(add_text(query, "query", engine, texts));
  for (size_t i = 0; i < documents.size(); ++i)
    KVICK_TRY_VOID(add_text(documents[i], fmt::format("documents[{}]", i), engine, texts));
  return base::Done{};
}

ApiStatus add_pairs(std::span<const Prompt> left, std::span<const Prompt> right,
                    const engine::Engine& engine, TextsToEmbed& texts) {
  for (size_t i = 0; i < right.size(); ++i) {
    const auto* query = std::get_if<std::string>(&left[left.size() > 1 ? i : 0]);
    const auto* document = std::get_if<std::string>(&right[i]);
    if (query == nullptr || document == nullptr)
      return bad_field(query == nullptr ? "text_1" : "text_2",
                       "a model that scores pairs takes texts, not token ids");
    add_pair(*query, *document, engine, texts);
  }
  return base::Done{};
}

// Adds the texts of /score, likewise.
ApiStatus add_texts(std::span<const Prompt> left, std::span<const Prompt> right,
                    const EmbedContext& context, TextsToEmbed& texts) {
  if (reads_pairs(context)) return add_pairs(left, right, context.engine, texts);
  for (const Prompt& text : left) KVICK_TRY_VOID(add_text(text, "text_1", context.engine, texts));
  for (const Prompt& text : right) KVICK_TRY_VOID(add_text(text, "text_2", context.engine, texts));
  return base::Done{};
}

}  // namespace

ApiResult<EmbedPlan> plan_rerank(const Json& body, UnknownFields& unknown,
                                 const EmbedContext& context) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  EmbedPlan plan;
  // The model was chosen before; here the field is only checked to be a string.
  KVICK_TRY([[maybe_unused]] const std::string model, fields.get_string("model", ""));
  if (fields.find("query") == nullptr) return bad_field("query", "query is missing");
  KVICK_TRY(const std::string query, fields.get_string("query", ""));
  KVICK_TRY(std::vector<std::string> documents, read_documents(fields));
  const auto all = static_cast<int64_t>(documents.size());
  KVICK_TRY(const int64_t most, fields.get_int("top_n", all, {1, INT32_MAX}));
  KVICK_TRY(const bool repeats, fields.get_bool("return_documents", false));
  fields.ignore({"user"});
  KVICK_TRY_VOID(fields.check_rest());
  plan.texts.pooling = pooling_of(context);
  plan.texts.field = "documents";
  KVICK_TRY_VOID(add_documents(query, documents, context, plan.texts));
  if (!repeats) documents.clear();
  plan.answer = [answer = RerankAnswer{.id = fmt::format("rerank-{:016x}", context.random()),
                                       .model = context.model,
                                       .most = static_cast<size_t>(most),
                                       .documents = std::move(documents),
                                       .pairs = reads_pairs(context)}](
                    const Embeddings& embeddings) { return answer_with(answer, embeddings); };
  return plan;
}

ApiResult<EmbedPlan> plan_score(const Json& body, UnknownFields& unknown,
                                const EmbedContext& context) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  EmbedPlan plan;
  // The model was chosen before; here the field is only checked to be a string.
  KVICK_TRY([[maybe_unused]] const std::string model, fields.get_string("model", ""));
  KVICK_TRY(const std::vector<Prompt> left, read_prompts(fields, "text_1", kMostTexts, "texts"));
  KVICK_TRY(const std::vector<Prompt> right, read_prompts(fields, "text_2", kMostTexts, "texts"));
  fields.ignore({"user"});
  KVICK_TRY_VOID(fields.check_rest());
  if (left.size() != 1 && left.size() != right.size())
    return bad_field("text_1", "text_1 has {} texts and text_2 has {}; give one, or as many",
                     left.size(), right.size());
  plan.texts.pooling = pooling_of(context);
  plan.texts.field = "text_2";
  KVICK_TRY_VOID(add_texts(left, right, context, plan.texts));
  plan.answer = [answer = ScoreAnswer{.id = fmt::format("score-{:016x}", context.random()),
                                      .model = context.model,
                                      .created = context.unix_time(),
                                      .left = left.size(),
                                      .pairs = reads_pairs(context)}](
                    const Embeddings& embeddings) { return answer_with(answer, embeddings); };
  return plan;
}

}  // namespace kvick::server
