// The public interface, on top of Engine and Session.

#include "kvick/kvick.h"

#include "engine/core/engine.h"
#include "engine/session/session.h"
#include "kernels/table/table.h"

namespace kvick {
namespace {

template <typename T>
T value_or_throw(base::Result<T> result) {
  if (!result.ok()) throw Error(result.error().message);
  return std::move(result).value();
}

base::Isa choose(const std::string& name) {
  if (name.empty()) return value_or_throw(kernels::choose_isa());
  const std::optional<base::Isa> isa = base::isa_from_name(name);
  if (!isa || !base::isa_supported(*isa))
    throw Error(fmt::format("instruction set \"{}\" is unknown or not on this processor: use {}",
                            name, base::isa_name(base::best_isa())));
  return *isa;
}

engine::Sampling sampling_of(const Generation& g) {
  engine::Sampling sampling;
  sampling.temperature = g.temperature;
  sampling.top_k = g.top_k;
  sampling.top_p = g.top_p;
  sampling.min_p = g.min_p;
  sampling.repetition_penalty = g.repetition_penalty;
  sampling.presence_penalty = g.presence_penalty;
  sampling.frequency_penalty = g.frequency_penalty;
  sampling.seed = g.seed;
  sampling.logit_bias = g.logit_bias;
  return sampling;
}

}  // namespace

struct Model::State {
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<kv::Store> store;
  std::unique_ptr<engine::Session> session;

  Answer generate(std::vector<engine::Token> prompt, const Generation& generation, bool continues) {
    engine::Request request;
    request.prompt = std::move(prompt);
    request.continues = continues;
    request.max_tokens = generation.max_tokens;
    request.sampling = sampling_of(generation);
    request.stop = generation.stop;
    request.on_text = generation.on_text;
    engine::Answer answer = value_or_throw(session->generate(request));
    return {.text = std::move(answer.text),
            .tokens = std::move(answer.tokens),
            .finish_reason = std::string(engine::finish_name(answer.finish)),
            .prompt_tokens = answer.prompt_tokens,
            .cached_tokens = answer.cached_tokens,
            .prefill_seconds = answer.prefill_s,
            .decode_seconds = answer.decode_s,
            .drafted = answer.drafted,
            .accepted = answer.accepted};
  }
};

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::open(const Options& options) {
  engine::KvOptions kv = value_or_throw(
      engine::parse_kv_options(options.kv, options.kv_type, options.kv_tier, options.kv_select));
  kv.max_tokens = options.context;
  auto state = std::make_unique<State>();
  state->engine =
      value_or_throw(engine::Engine::open({.model_path = options.path,
                                           .threads = options.threads,
                                           .isa = choose(options.isa),
                                           .prompt_arithmetic = engine::PromptArithmetic::kAuto,
                                           .float_activations = engine::FloatActivations::kAuto,
                                           .progress = {}}));
  state->store = value_or_throw(state->engine->make_store(kv));
  state->session = std::make_unique<engine::Session>(*state->engine, *state->store);
  state->session->set_prompt_role(state->engine->prompt_role(kv));
  value_or_throw(
      state->session->speculate(value_or_throw(engine::parse_spec_options(options.spec))));
  return Model(std::move(state));
}

Answer Model::complete(std::string_view prompt, const Generation& generation) {
  return state_->generate(state_->engine->tokenizer().encode(prompt, true, false), generation,
                          true);
}

Answer Model::chat(const std::vector<Message>& messages, const Generation& generation) {
  auto list = nlohmann::ordered_json::array();
  for (const Message& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return state_->generate(value_or_throw(state_->engine->chat_tokens(list)), generation, false);
}

std::vector<int32_t> Model::tokenize(std::string_view text) const {
  return state_->engine->tokenizer().encode(text, false, false);
}

std::string Model::detokenize(const std::vector<int32_t>& tokens) const {
  return state_->engine->tokenizer().decode(tokens);
}

}  // namespace kvick
