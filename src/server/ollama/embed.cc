#include "server/ollama/embed.h"

#include <algorithm>
#include <fmt/format.h>

#include "server/request/prompts.h"

namespace kvick::server {
namespace {

struct EmbedForm {
  std::string model;
  bool several = false;
  engine::EmbeddingForm form;
  std::function<double()> clock;
  double began = 0;
};

// Returns whether the request has no text. Ollama's clients load a model with such requests.
bool has_no_text(const Json* texts) {
  return texts == nullptr || *texts == "" || (texts->is_array() && texts->empty());
}

std::string answer_with(const EmbedForm& as, Embeddings embeddings) {
  std::string list;
  for (std::vector<float>& vector : embeddings.vectors) {
    engine::give_form(as.form, vector);
    list += (list.empty() ? "" : ",") + floats_json(vector);
    vector = {};
  }
  if (!as.several) return fmt::format(R"({{"embedding":{}}})", list.empty() ? "[]" : list);
  return fmt::format(
      R"({{"model":{},"embeddings":[{}],"total_duration":{},"load_duration":0,"prompt_eval_count":{}}})",
      to_text(as.model), list, static_cast<int64_t>((as.clock() - as.began) * 1e9),
      embeddings.tokens);
}

// Cuts a text to `most` tokens; the tokens that the model adds behind a text stay its last ones.
void cut(const text::Tokenizer& tokenizer, uint32_t most, std::vector<engine::Token>& tokens) {
  tokens.resize(most);
  const std::vector<engine::Token>& behind = tokenizer.behind();
  const size_t kept = std::min(behind.size(), tokens.size());
  std::copy_backward(behind.end() - static_cast<std::ptrdiff_t>(kept), behind.end(), tokens.end());
}

// Plans both routes. field: the field with the texts.
ApiResult<EmbedPlan> plan_texts(Fields& fields, const char* field, EmbedForm form,
                                const OllamaEmbedContext& context) {
  EmbedPlan plan;
  KVICK_TRY(form.model, fields.get_string("model", ""));
  if (form.model.empty()) form.model = context.embed.model;
  const size_t most = form.several ? kMostTexts : 1;
  std::vector<Prompt> prompts;
  if (!has_no_text(fields.find(field))) {
    KVICK_TRY(prompts, read_prompts(fields, field, most, "texts"));
  }
  KVICK_TRY(const bool cuts, fields.get_bool("truncate", true));
  fields.ignore({"keep_alive", "options"});
  KVICK_TRY_VOID(fields.check_rest());
  const engine::Engine& engine = context.embed.engine;
  KVICK_TRY(plan.texts.pooling, embedding_pooling(context.embed));
  plan.texts.field = field;
  for (const Prompt& prompt : prompts) {
    KVICK_TRY(std::vector<engine::Token> tokens, prompt_tokens(prompt, field, engine));
    if (cuts && tokens.size() > context.context) cut(engine.tokenizer(), context.context, tokens);
    plan.texts.texts.push_back(std::move(tokens));
  }
  form.clock = context.clock;
  form.began = context.clock();
  plan.answer = [form = std::move(form)](Embeddings embeddings) {
    return answer_with(form, std::move(embeddings));
  };
  return plan;
}

}  // namespace

ApiResult<EmbedPlan> plan_ollama_embed(const Json& body, UnknownFields& unknown,
                                       const OllamaEmbedContext& context) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  EmbedForm form = {.several = true};
  const uint32_t width = context.embed.engine.model().config().dim;
  KVICK_TRY(const int64_t dimensions, fields.get_int("dimensions", width, {1, width}));
  form.form.dimensions = static_cast<uint32_t>(dimensions);
  return plan_texts(fields, "input", std::move(form), context);
}

ApiResult<EmbedPlan> plan_ollama_embedding(const Json& body, UnknownFields& unknown,
                                           const OllamaEmbedContext& context) {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  EmbedForm form;
  form.form.normalised = false;  // Ollama's older route does not normalise
  return plan_texts(fields, "prompt", std::move(form), context);
}

}  // namespace kvick::server
