#include "extension/model.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <numeric>

#include "extension/policy.h"

#include "base/memory.h"
#include "engine/answer/pair.h"
#include "engine/options/spec_options.h"
#include "kernels/table/table.h"
#include "text/schema/json_constraint.h"

namespace kvick::python {
namespace {

// Tokens of one forward pass whose logits are all kept: 200 KB per token with a vocabulary of 50 k.
constexpr size_t kChunk = 128;

// Time between two checks for Ctrl-C while another thread computes.
constexpr std::chrono::milliseconds kLook{50};

nlohmann::ordered_json json_of(const std::string& text, std::string_view what) {
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::ordered_json::parse_error& error) {
    throw Error(fmt::format("{} is not JSON: wrong at byte {}", what, error.byte));
  } catch (const nlohmann::ordered_json::exception&) {
    throw Error(fmt::format("{} has a number that is too large", what));
  }
}

engine::KvOptions kv_options(const OpenOptions& options) {
  engine::KvOptions kv = value_or_throw(
      engine::parse_kv_options(options.kv, options.kv_type, options.kv_tier, options.kv_select));
  kv.max_tokens = options.context;
  // Without a limit, a cache that allocates everything at once could exceed the free memory.
  kv.max_bytes = options.kv_memory != 0 ? options.kv_memory : base::available_memory_bytes();
  return kv;
}

engine::PromptArithmetic prompt_arithmetic(const std::string& name) {
  if (name.empty() || name == "auto") return engine::PromptArithmetic::kAuto;
  if (name == "exact") return engine::PromptArithmetic::kExact;
  if (name == "tiles") return engine::PromptArithmetic::kTiles;
  throw Error(fmt::format("prompt_arithmetic is exact, tiles or auto, and not {}", name));
}

// Returns none if the model's file decides.
std::optional<engine::Pooling> pooling_named(const std::string& name) {
  if (name.empty() || name == "auto") return std::nullopt;
  if (name == "last") return engine::Pooling::kLast;
  if (name == "mean") return engine::Pooling::kMean;
  if (name == "cls") return engine::Pooling::kCls;
  throw Error(fmt::format("pooling is last, mean, cls or auto, and not {}", name));
}

std::unique_ptr<engine::Engine> open_engine(const OpenOptions& options) {
  return value_or_throw(
      engine::Engine::open({.model_path = options.path,
                            .threads = options.threads,
                            .isa = value_or_throw(kernels::choose_isa()),
                            .prompt_arithmetic = prompt_arithmetic(options.prompt_arithmetic),
                            .float_activations = engine::FloatActivations::kAuto,
                            .progress = {}}));
}

}  // namespace

// A call's turn to compute. Calls of other threads wait for it. A call from a callback of the
// running call is refused: it would wait for itself.
class Model::Turn {
 public:
  Turn(Model& model, const Between& between) : model_(model) {
    if (choosing_rows())
      throw Error("a policy is called while a model computes, and cannot have another answer");
    if (model.caller_ == std::this_thread::get_id())
      throw Error("the model is computing: wait until its answer is there, or open it twice");
    while (!model.turn_.try_lock_for(kLook)) between();
    model.caller_ = std::this_thread::get_id();
  }
  ~Turn() {
    model_.caller_ = std::thread::id();
    model_.turn_.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Model& model_;
};

Model::Model(const OpenOptions& options) : kv_(kv_options(options)) {
  spec_ = value_or_throw(engine::parse_spec_options(options.spec));
  engine_ = open_engine(options);
  kv_ = engine_->resolved(std::move(kv_));
  store_ = value_or_throw(engine_->make_store(kv_));
  session_ = std::make_unique<engine::Session>(*engine_, *store_);
  session_->set_prompt_role(engine_->prompt_role(kv_));
  value_or_throw(session_->speculate(spec_));
}

std::vector<engine::Token> Model::text_prompt(const std::string& text) const {
  return engine_->tokenizer().encode(text, true, false);
}

std::vector<engine::Token> Model::chat_prompt(const std::string& messages,
                                              const std::string& variables) const {
  const nlohmann::ordered_json list = json_of(messages, "the list of messages");
  return value_or_throw(
      engine_->chat_tokens(list, json_of(variables, "what the chat template is to see")));
}

std::vector<engine::Token> Model::tokenize(const std::string& text, bool special) const {
  return engine_->tokenizer().encode(text, special, special);
}

void Model::check_tokens(std::span<const engine::Token> tokens) const {
  const size_t vocab = engine_->tokenizer().vocabulary().pieces.size();
  for (const engine::Token token : tokens)
    if (token < 0 || static_cast<size_t>(token) >= vocab)
      throw Error(fmt::format("token {} is not in the vocabulary: its tokens are 0 to {}", token,
                              vocab - 1));
}

std::string Model::detokenize(const std::vector<engine::Token>& tokens, bool special) const {
  check_tokens(tokens);
  return engine_->tokenizer().decode(tokens, special);
}

engine::Answer Model::generate(engine::Request request, const std::string& schema,
                               const Between& between) {
  const Turn turn(*this, between);
  check_tokens(request.prompt);
  request.constraint = constraint(schema);
  return value_or_throw(session_->generate(request));
}

std::shared_ptr<const text::Constraint> Model::constraint(const std::string& schema) const {
  if (schema.empty()) return nullptr;
  auto tokens = value_or_throw(text::TokenTrie::make(engine_->tokenizer()));
  return value_or_throw(text::json_constraint(std::move(tokens), json_of(schema, "the schema")));
}

// The rows that the one sequence keeps between calls count against the same limit.
engine::EngineThreadOptions Model::thread_options() const {
  engine::EngineThreadOptions options;
  options.batch.kv = kv_;
  options.batch.kv.max_bytes = UINT64_MAX;
  options.batch.kv_bytes = kv_.max_bytes - std::min(kv_.max_bytes, store_->usage().allocated_bytes);
  options.batch.spec = spec_;
  return options;
}

std::vector<JobEnd> Model::batch(std::vector<engine::Job> jobs, const std::string& schema,
                                 uint32_t parallel, const OnEnd& on_end, const Between& between) {
  const Turn turn(*this, between);
  value_or_throw(engine_->check_writes());
  const std::shared_ptr<const text::Constraint> form = constraint(schema);
  for (engine::Job& job : jobs) {
    check_tokens(job.prompt);
    job.constraint = form;
  }
  engine::EngineThreadOptions options = thread_options();
  options.batch.max_sequences = parallel;
  return run_jobs(*engine_, options, std::move(jobs), "prompt", on_end, between);
}

std::vector<std::vector<float>> Model::embed(const std::vector<std::string>& texts,
                                             const std::string& pooling, engine::EmbeddingForm form,
                                             const Between& between) {
  const Turn turn(*this, between);
  const model::Config& config = engine_->model().config();
  const engine::Pooling kind = engine::pooling_of(config, pooling_named(pooling));
  if (kind == engine::Pooling::kRank && engine_->model().scores_pairs())
    throw Error(
        fmt::format("{} scores pairs of texts and gives no embeddings: use rerank(), or give "
                    "pooling=\"last\", \"mean\" or \"cls\"",
                    config.name));
  if (form.dimensions > config.dim)
    throw Error(fmt::format("dimensions is {}, but the model's embeddings have {}", form.dimensions,
                            config.dim));
  std::vector<engine::Job> jobs(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    jobs[i].prompt = engine_->tokenizer().encode(texts[i], true, true);
    if (jobs[i].prompt.empty())
      throw Error(fmt::format("text {} is empty: there is nothing to read", i));
    jobs[i].pooling = kind;
  }
  std::vector<std::vector<float>> vectors(texts.size());
  const auto keep = [&](size_t text, const JobEnd& end) {
    vectors[text] = end.outcome.embedding;
    engine::give_form(form, vectors[text]);
    return true;
  };
  run_jobs(*engine_, thread_options(), std::move(jobs), "text", keep, between);
  return vectors;
}

std::vector<double> Model::scores(const std::string& query,
                                  const std::vector<std::string>& documents,
                                  const std::string& pooling, const Between& between) {
  const engine::Pooling kind =
      engine::pooling_of(engine_->model().config(), pooling_named(pooling));
  std::vector<double> scores(documents.size());
  if (kind != engine::Pooling::kRank || !engine_->model().scores_pairs()) {
    std::vector<std::string> texts = {query};
    texts.insert(texts.end(), documents.begin(), documents.end());
    const std::vector<std::vector<float>> vectors = embed(texts, pooling, {}, between);
    for (size_t i = 0; i < scores.size(); ++i)
      scores[i] = engine::cosine(vectors.front(), vectors[i + 1]);
    return scores;
  }
  const Turn turn(*this, between);
  std::vector<engine::Job> jobs(documents.size());
  for (size_t i = 0; i < documents.size(); ++i) {
    engine::TextPair pair = engine::encode_pair(engine_->tokenizer(), query, documents[i]);
    jobs[i].prompt = std::move(pair.tokens);
    jobs[i].second_text = pair.second;
    jobs[i].pooling = kind;
  }
  const auto keep = [&](size_t document, const JobEnd& end) {
    scores[document] = end.outcome.embedding.front();
    return true;
  };
  run_jobs(*engine_, thread_options(), std::move(jobs), "document", keep, between);
  return scores;
}

void Model::logits(std::span<const engine::Token> tokens, std::span<float> rows,
                   const Between& between) {
  const Turn turn(*this, between);
  check_tokens(tokens);
  value_or_throw(engine_->check_writes());
  const size_t vocab = engine_->model().outputs();
  const bool all = rows.size() == tokens.size() * vocab;
  const std::unique_ptr<kv::Store> store = value_or_throw(engine_->make_store(kv_));
  model::Executor executor = engine_->make_executor();
  const kv::SeqId seq = store->open({}).seq;
  float* out = rows.data();
  for (size_t begin = 0, n = 0; begin < tokens.size(); begin += n) {
    n = std::min(kChunk, tokens.size() - begin);
    const model::Slot slot = {.seq = seq,
                              .past = static_cast<uint32_t>(begin),
                              .tokens = tokens.subspan(begin, n),
                              .parents = {},
                              .role = engine_->prompt_role(kv_),
                              .reusable = false};
    std::vector<uint32_t> wanted(all ? n : begin + n == tokens.size());
    std::iota(wanted.begin(), wanted.end(), static_cast<uint32_t>(n - wanted.size()));
    const auto done = executor.advance(*store, {.slots = {&slot, 1}}, wanted);
    if (!done.ok())
      throw Error(fmt::format("no room for {} tokens: {}", tokens.size(), done.error().what));
    out = std::ranges::copy(executor.logits().first(wanted.size() * vocab), out).out;
    between();
  }
}

engine::Perplexity Model::perplexity(const std::string& text, engine::PerplexityOptions options,
                                     const Between& between) {
  const Turn turn(*this, between);
  options.kv = kv_;
  return value_or_throw(
      engine::perplexity(*engine_, engine_->tokenizer().encode(text, false, false), options));
}

std::vector<engine::Measurement> Model::bench(std::span<const engine::Case> cases,
                                              engine::SpeedOptions options,
                                              const Between& between) {
  const Turn turn(*this, between);
  options.kv = kv_;
  return value_or_throw(engine::measure_speed(*engine_, cases, options));
}

}  // namespace kvick::python
