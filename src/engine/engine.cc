#include "engine/engine.h"

#include "model/vocabulary.h"

namespace kvick::engine {

using base::Result;

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  KVICK_CHECK(base::isa_supported(options.isa), "no {} on this processor", isa_name(options.isa));
  std::unique_ptr<Engine> engine(new Engine(kernels::table(options.isa)));
  engine->pool_ = std::make_unique<base::ThreadPool>(options.threads != 0 ? options.threads
                                                                          : base::available_cpus());
  engine->now_ = options.now;

  KVICK_TRY(io::ModelFile file, io::ModelFile::open(options.model_path));
  KVICK_TRY(text::Vocabulary vocabulary, model::read_vocabulary(file));
  KVICK_TRY(engine->tokenizer_, text::Tokenizer::make(std::move(vocabulary)));
  engine->file_bytes_ = file.file_bytes();

  const auto report = [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(done, total);
  };
  base::FunctionRef<void(uint64_t, uint64_t)> progress(report);
  KVICK_TRY(engine->model_, model::Model::load(std::move(file), {.kernels = &engine->kernels_,
                                                                 .pool = engine->pool_.get(),
                                                                 .progress = &progress}));
  const size_t pieces = engine->tokenizer_->vocabulary().pieces.size();
  const uint32_t vocab = engine->model_->config().vocab;
  if (pieces > vocab)
    return base::fail("{}: {} tokens in the vocabulary, but the output layer has {} rows",
                      options.model_path, pieces, vocab);
  if (engine->has_chat_template()) {
    auto parsed = text::ChatTemplate::parse(engine->tokenizer_->vocabulary().chat_template);
    // A template that kvick cannot run is no reason not to run the model: render_chat says what is
    // wrong.
    if (parsed.ok())
      engine->template_ = std::make_unique<text::ChatTemplate>(std::move(parsed).value());
    else
      engine->template_error_ = parsed.error().message;
  }
  return engine;
}

kv::Setup Engine::setup(const KvOptions& options) const {
  kv::Setup setup;
  setup.shape = model_->kv_shape(options.k_type, options.v_type, options.max_tokens);
  setup.shape.aging = options.aging;
  setup.max_bytes = options.max_bytes;
  setup.store_row = kernels_.store_row;
  setup.store_group = kernels_.store_group;
  setup.pool = pool_.get();
  return setup;
}

Result<std::unique_ptr<kv::Store>> Engine::make_store(const KvOptions& options) const {
  const uint32_t context = model_->config().context;
  if (options.max_tokens > context)
    return base::fail("a context of {} tokens was asked for, but the model has {}",
                      options.max_tokens, context);
  return kv::make_store(options.spec, setup(options));
}

Result<kv::Cost> Engine::cost(const KvOptions& options, const kv::Load& load) const {
  return kv::cost_of(options.spec, setup(options), load);
}

Result<std::string> Engine::render_chat(const nlohmann::ordered_json& messages) const {
  if (template_ == nullptr) {
    if (!template_error_.empty())
      return base::fail("the model's chat template cannot be used: {}", template_error_);
    return base::fail("the model has no chat template; give the prompt as it is (--raw)");
  }
  const text::Vocabulary& vocabulary = tokenizer_->vocabulary();
  const auto name = [&](const std::optional<text::Token>& token) {
    return token ? tokenizer_->piece(*token, true) : std::string();
  };
  return template_->render({{"messages", messages},
                            {"add_generation_prompt", true},
                            {"bos_token", name(vocabulary.bos)},
                            {"eos_token", name(vocabulary.eos)}},
                           {.now = now_});
}

Result<std::vector<kv::Token>> Engine::chat_tokens(const nlohmann::ordered_json& messages) const {
  KVICK_TRY(const std::string prompt, render_chat(messages));
  std::vector<kv::Token> tokens = tokenizer_->encode(prompt, true, true);
  const std::optional<text::Token> bos = tokenizer_->vocabulary().bos;
  if (bos && tokens.size() >= 2 && tokens[0] == *bos && tokens[1] == *bos)
    tokens.erase(tokens.begin());
  return tokens;
}

}  // namespace kvick::engine
