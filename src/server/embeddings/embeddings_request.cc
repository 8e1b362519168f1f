// POST /v1/embeddings.

#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/embeddings/embed_plan.h"
#include "server/embeddings/usage.h"
#include "server/request/prompts.h"

namespace kvick::server {
namespace {

struct EmbeddingAnswer {
  std::string model;
  engine::EmbeddingForm form;
  bool base64 = false;
};

std::string answer_with(const EmbeddingAnswer& answer, Embeddings embeddings) {
  std::string body = R"({"object":"list","data":[)";
  for (size_t i = 0; i < embeddings.vectors.size(); ++i) {
    std::vector<float>& vector = embeddings.vectors[i];
    engine::give_form(answer.form, vector);
    body += fmt::format(R"({}{{"object":"embedding","index":{},"embedding":{}}})", i > 0 ? "," : "",
                        i, answer.base64 ? '"' + base64_of(vector) + '"' : floats_json(vector));
    vector = {};
  }
  body += fmt::format(R"(],"model":{},"usage":{}}})", to_text(answer.model),
                      to_text(usage_json(embeddings.tokens)));
  return body;
}

ApiResult<bool> read_base64(Fields& fields) {
  KVICK_TRY(const std::string format, fields.get_string("encoding_format", "float"));
  if (format == "float" || format == "base64") return format == "base64";
  return bad_field("encoding_format", "encoding_format is {}; there are float and base64",
                   in_quotes(format));
}

}  // namespace

ApiResult<engine::Pooling> embedding_pooling(const EmbedContext& context) {
  const model::Model& model = context.engine.model();
  const engine::Pooling kind = engine::pooling_of(model.config(), context.pooling);
  if (kind != engine::Pooling::kRank || !model.scores_pairs()) return kind;
  return bad_field("model",
                   "the model scores pairs of texts and gives no embeddings; use /v1/rerank or "
                   "/score, or start with --pooling last, mean or cls");
}

std::string floats_json(std::span<const float> vector) {
  return fmt::format("[{}]", fmt::join(vector, ","));
}

std::string base64_of(std::span<const float> vector) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((vector.size() * sizeof(float) + 2) / 3 * 4);
  uint32_t bits = 0, bytes = 0;  // bytes not written yet, the latest in the low bits
  for (const float value : vector)
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bits = bits << 8 | ((std::bit_cast<uint32_t>(value) >> shift) & 0xFF);
      if (++bytes < 3) continue;
      for (const unsigned at : {18, 12, 6, 0}) text += kDigits[bits >> at & 63];
      bits = bytes = 0;
    }
  if (bytes == 0) return text;
  bits <<= 8 * (3 - bytes);
  for (uint32_t i = 0; i < 4; ++i) text += i <= bytes ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  return text;
}

ApiResult<EmbedPlan> plan_embeddings(const Json& body, UnknownFields& unknown,
                                     const EmbedContext& context) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  EmbedPlan plan;
  // The model was chosen before; here the field is only checked to be a string.
  KVICK_TRY([[maybe_unused]] const std::string model, fields.get_string("model", ""));
  KVICK_TRY(const std::vector<Prompt> prompts, read_prompts(fields, "input", kMostTexts, "texts"));
  EmbeddingAnswer answer = {.model = context.model};
  KVICK_TRY(answer.base64, read_base64(fields));
  const uint32_t width = context.engine.model().config().dim;
  KVICK_TRY(const int64_t dimensions, fields.get_int("dimensions", width, {1, width}));
  answer.form.dimensions = static_cast<uint32_t>(dimensions);
  fields.ignore({"user"});
  KVICK_TRY_VOID(fields.check_rest());
  KVICK_TRY(plan.texts.pooling, embedding_pooling(context));
  plan.texts.field = "input";
  for (const Prompt& prompt : prompts) {
    KVICK_TRY(std::vector<engine::Token> tokens, prompt_tokens(prompt, "input", context.engine));
    plan.texts.texts.push_back(std::move(tokens));
  }
  plan.answer = [answer = std::move(answer)](Embeddings embeddings) {
    return answer_with(answer, std::move(embeddings));
  };
  return plan;
}

}  // namespace kvick::server
