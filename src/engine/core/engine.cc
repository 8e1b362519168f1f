#include "engine/core/engine.h"

#include <algorithm>

#include "engine/artifacts/ranges_file.h"
#include "engine/artifacts/rank_part.h"
#include "engine/core/rank_stores.h"
#include "engine/options/layer_options.h"
#include "kernels/probe/probe.h"
#include "kv/registry/policies.h"
#include "kv/strategy/options.h"
#include "kv/strategy/selection.h"
#include "model/core/vocabulary.h"
#include "plan/forecast/growth_rates.h"
#include "text/template/last_message.h"

namespace kvick::engine {

using base::Result;

Result<const kernels::Table*> choose_table(base::Isa isa, FloatActivations activations) {
  KVICK_CHECK(base::isa_supported(isa), "no {} on this processor", isa_name(isa));
  const kernels::Table* rounding = kernels::rounding_table(isa);
  if (activations == FloatActivations::kBf16 && rounding == nullptr)
    return base::fail("activations of bf16 need AVX-512 BF16, but this runs on {}: ask for auto",
                      isa_name(isa));
  const bool rounds =
      activations == FloatActivations::kBf16 ||
      (activations == FloatActivations::kAuto && products_of_bf16_pay(kernels::probes(isa)));
  return rounds ? rounding : &kernels::table(isa);
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  KVICK_TRY(const kernels::Table* table, choose_table(options.isa, options.float_activations));
  std::unique_ptr<Engine> engine(new Engine(*table));
  engine->pool_ = std::make_unique<base::ThreadPool>(options.threads != 0 ? options.threads
                                                                          : base::available_cpus());
  engine->now_ = options.now;
  engine->ranks_ = options.ranks;
  engine->prompt_arithmetic_ = options.prompt_arithmetic;
  if (options.prompt_arithmetic == PromptArithmetic::kTiles &&
      engine->kernels_.matmul_prompt == nullptr)
    return base::fail("prompts on tiles need amx, but this runs on {}: ask for auto",
                      isa_name(options.isa));
  if (options.attention == Attention::kBmm && !kernels::bucket_attention_built())
    return base::fail(
        "attention by bmm needs oneDNN, without which this kvick was built: use fused");
  if (options.attention == Attention::kBmm)
    engine->library_ = std::make_shared<kernels::BucketAttention>();

  KVICK_TRY(io::ModelFile file, io::ModelFile::open(options.model_path));
  KVICK_TRY(text::Vocabulary vocabulary, model::read_vocabulary(file));
  KVICK_TRY(engine->tokenizer_, text::Tokenizer::make(std::move(vocabulary)));
  engine->file_bytes_ = file.file_bytes();
  engine->file_summary_ = summary_of(file);
  KVICK_TRY(engine->sampling_, read_model_sampling(file));
  engine->identity_.weights = weights_of(file);
  if (options.fingerprint) {
    KVICK_TRY(engine->fingerprint_, content_hash(options.model_path, *engine->pool_));
  }

  const auto report = [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(done, total);
  };
  base::FunctionRef<void(uint64_t, uint64_t)> progress(report);
  KVICK_TRY(
      engine->model_,
      model::Model::load(std::move(file), {.kernels = &engine->kernels_,
                                           .pool = engine->pool_.get(),
                                           .progress = &progress,
                                           .families = options.families,
                                           .ranks = options.ranks.get(),
                                           .sequence = options.sequence,
                                           .split = options.split,
                                           .packed = options.packed ? &*options.packed : nullptr,
                                           .expert_bytes = options.expert_bytes}));
  KVICK_TRY(engine->adapters_, open_adapters(options.adapters, *engine->model_, *engine->pool_));
  const model::Config& config = engine->model_->whole_config();
  engine->identity_ = identity_of(config, std::move(engine->identity_.weights));
  if (options.fingerprint) engine->fingerprint_ += "|" + config_text(config);
  engine->auto_types_ = std::make_shared<AutoTypes>(options.model_path, engine->identity_);
  const size_t pieces = engine->tokenizer_->vocabulary().pieces.size();
  if (pieces > config.vocab)
    return base::fail("{}: {} tokens in the vocabulary, but the output layer has {} rows",
                      options.model_path, pieces, config.vocab);
  if (engine->has_chat_template()) {
    auto parsed = text::ChatTemplate::parse(engine->tokenizer_->vocabulary().chat_template);
    // A template that kvick cannot parse does not stop the model from running: render_chat reports
    // the error.
    if (parsed.ok())
      engine->template_ = std::make_unique<text::ChatTemplate>(std::move(parsed).value());
    else
      engine->template_error_ = parsed.error().message;
    if (engine->template_ != nullptr) engine->learn_syntax();
  }
  return engine;
}

void Engine::learn_syntax() {
  const text::Vocabulary& v = tokenizer_->vocabulary();
  syntax_ = std::make_shared<text::AnswerSyntax>(
      text::learn_answer_syntax(*template_, v.chat_template, {.now = now_}));
  for (size_t i = 0; i < v.pieces.size() && !marks_are_special_; ++i)
    marks_are_special_ = v.kinds[i] == text::TokenKind::kControl && syntax_->has_mark(v.pieces[i]);
}

std::unique_ptr<Engine> Engine::instance(const base::Team& team) const {
  std::unique_ptr<Engine> other(new Engine(kernels_));
  other->pool_ = std::make_unique<base::ThreadPool>(team);
  other->library_ = library_;
  other->prompt_arithmetic_ = prompt_arithmetic_;
  other->tokenizer_ = tokenizer_;
  other->template_ = template_;
  other->syntax_ = syntax_;
  other->marks_are_special_ = marks_are_special_;
  other->now_ = now_;
  other->ranks_ = ranks_;
  other->model_ = model_;
  other->adapters_ = adapters_;
  other->template_error_ = template_error_;
  other->file_bytes_ = file_bytes_;
  other->file_summary_ = file_summary_;
  other->sampling_ = sampling_;
  other->identity_ = identity_;
  other->fingerprint_ = fingerprint_;
  other->ranks_arithmetic_ = ranks_arithmetic_;
  other->auto_types_ = auto_types_;
  return other;
}

// Only stores that show all rows as they were written use tiles for attention. Views of other
// stores depend on how a text was cut into steps, and so would the results.
model::Role prompt_role_of(const KvOptions& resolved, PromptArithmetic prompts,
                           const kernels::Table& kernels, bool buckets) {
  if (prompts == PromptArithmetic::kExact || kernels.matmul_prompt == nullptr)
    return model::Role::kAnswer;
  const kv::Strategy* strategy = kv::find_strategy(resolved.spec.name);
  const bool plain = strategy != nullptr && strategy->traits.exact && !strategy->traits.slots &&
                     !resolved.aging && resolved.select.name.empty() && !buckets;
  return plain && kernels::has_prompt_tiles(*resolved.k_type, *resolved.v_type)
             ? model::Role::kPrompt
             : model::Role::kPromptLayers;
}

model::Role Engine::prompt_role(const KvOptions& options) const {
  return prompt_role_of(resolved(options), prompt_arithmetic_, kernels_, library_ != nullptr);
}

model::Workspace Engine::make_workspace() const {
  model::Workspace workspace(*pool_, kernels_);
  workspace.library = library_.get();
  return workspace;
}

Result<kv::GrowthRates> Engine::growth_rates(const kv::Setup& setup) const {
  const std::lock_guard lock(growth_rates_mutex_);
  const Measured key = {setup.shape.max_tokens, setup.shape.k_type, setup.shape.v_type};
  if (const auto found = growth_rates_.find(key); found != growth_rates_.end())
    return found->second;
  model::Workspace workspace = make_workspace();
  KVICK_TRY(const kv::GrowthRates rates, plan::measure_growth(model_->config(), setup, workspace));
  growth_rates_[key] = rates;
  return rates;
}

base::Status<> Engine::check(const KvOptions& resolved) const {
  // resolved() failed to choose; this returns why.
  if (resolved.automatic) KVICK_TRY_VOID(choose_type(resolved));
  const uint32_t context = model_->config().context;
  if (resolved.max_tokens > context)
    return base::fail("a context of {} tokens was asked for, but the model has {}",
                      resolved.max_tokens, context);
  KVICK_TRY_VOID(check_layers(model_->config(), resolved));
  KVICK_TRY_VOID(check_states(model_->whole_config(), resolved));
  return library_ == nullptr ? base::Done{} : check_buckets(resolved);
}

Result<ChosenType> Engine::choose_type(const KvOptions& options) const {
  return auto_types_->choose(options, [this](const KvOptions& one) { return check_kv(one).ok(); });
}

KvOptions Engine::resolved(KvOptions options) const {
  if (options.automatic) {
    auto chosen = choose_type(options);
    if (chosen.ok()) options = std::move(chosen->options);
  }
  const bool memory = model_->trained_slots() != nullptr;
  if (options.spec.name.empty())
    options.spec.name = kv::default_strategy(memory, options.tier.has_value()).name;
  const kernels::DType type = memory ? kernels::DType::kF32 : kernels::DType::kF16;
  options.k_type = options.k_type.value_or(type);
  options.v_type = options.v_type.value_or(type);
  options.state_type = options.type_of_states();
  if (reads_all(options)) options.select = {};
  return options;
}

namespace {

// Adapts a policy's number of dense layers to a rank. It counts from the model's first layer, but a
// rank may have only later ones.
kv::Spec select_of_layers(kv::Spec select, uint32_t first) {
  const kv::Policy* const policy = kv::find_policy(select.name);
  if (policy == nullptr || first == 0) return select;
  for (const kv::Option& option : policy->options) {
    if (option.name != kv::dense_layers_option().name) continue;
    const std::string text(kv::value_of(select, option));
    const unsigned long dense = std::strtoul(text.c_str(), nullptr, 10);
    select.options[std::string(option.name)] =
        std::to_string(dense - std::min<unsigned long>(dense, first));
  }
  return select;
}

}  // namespace

kv::Setup Engine::setup(const KvOptions& resolved) const {
  kv::Setup setup;
  setup.shape = {
      .max_tokens = resolved.max_tokens, .k_type = *resolved.k_type, .v_type = *resolved.v_type};
  set_layers(model_->config(), resolved, setup);
  setup.shape.aging = resolved.aging;
  setup.shape.hadamard = resolved.hadamard;
  setup.limits.max_bytes = resolved.max_bytes;
  setup.limits.budget = resolved.budget;
  setup.sharing.on_reuse = resolved.on_reuse;
  setup.sharing.watcher = resolved.watcher;
  setup.compute.store_row = kernels_.store_row;
  setup.compute.store_group = kernels_.store_group;
  setup.compute.pool = pool_.get();
  setup.limits.most_positions = model_->config().most_positions();
  setup.compute.kernels = &kernels_;
  setup.slots = model_->trained_slots();
  setup.tier.spec = resolved.tier;
  setup.select.spec = select_of_layers(resolved.select, model_->first_layer());
  setup.select.group = model_->config().heads_layer().group();
  setup.select.model_dim = model_->config().dim;
  const model::Rope& rope = model_->config().rope_of_full();
  setup.select.rotation = {
      .frequency = rope.frequency, .dims = rope.dims, .interleaved = rope.interleaved};
  setup.compute.growth_rates = [this, plain = setup] { return growth_rates(plain); };
  return setup;
}

Result<std::unique_ptr<kv::Store>> Engine::make_store(const KvOptions& options) const {
  const KvOptions all = resolved(options);
  KVICK_TRY_VOID(check(all));
  kv::Setup setup = this->setup(all);
  if (kernels::is_static(*all.k_type) || kernels::is_static(*all.v_type)) {
    KVICK_TRY(auto ranges, read_ranges(all.ranges_path, identity_));
    setup.ranges = part_of(std::move(ranges), rank_part(*model_));
  }
  KVICK_TRY(setup.select.predictor, predictor(all));
  KVICK_TRY(auto store, kv::make_store(all.spec, setup));
  if (ranks() == nullptr || !ranks()->leads()) return store;
  return spread_store(*ranks(), all, std::move(store));
}

base::Result<std::shared_ptr<const kv::Predictor>> Engine::predictor(
    const KvOptions& resolved) const {
  const auto file = resolved.select.options.find("file");
  if (file == resolved.select.options.end()) return std::shared_ptr<const kv::Predictor>();
  KVICK_TRY(auto whole, predictors_.read(file->second, identity_, model_->whole_config()));
  auto own = part_of(std::move(whole), rank_part(*model_));
  if (!own.ok()) return base::fail("{}: {}", file->second, own.error().message);
  return own;
}

base::Status<> Engine::check_kv(const KvOptions& options) const {
  const KvOptions all = resolved(options);
  KVICK_TRY_VOID(check(all));
  if (const kv::Policy* policy = kv::find_policy(all.select.name)) {
    if (kv::needs_file(*policy) && !all.select.options.contains("file"))
      return base::fail("{0} needs a predictor file: start with --kv-select {0}:file=NAME.kvp",
                        policy->name);
  }
  kv::Setup setup = this->setup(all);
  // r=auto is allowed whatever the rates are. They are not measured here, since that takes the
  // threads that compute.
  setup.compute.growth_rates = [] {
    return Result<kv::GrowthRates>({.copy_bytes_s = 1, .growth_s = 1, .attention_bytes_s = 1});
  };
  KVICK_TRY_VOID(kv::cost_of(all.spec, setup, {.tokens = 1}));
  return base::Done{};
}

base::Status<> Engine::check_writes() const {
  if (!model_->config().both_ways()) return base::Done{};
  return base::fail(
      "{} is an encoder, which reads texts and writes none: use it for embeddings (kvick embed, "
      "/v1/embeddings)",
      model_->config().name);
}

uint32_t Engine::most_tokens(const KvOptions& options) const {
  const KvOptions all = resolved(options);
  const kv::Setup made = setup(all);
  const kv::Strategy* strategy = kv::find_strategy(all.spec.name);
  return strategy != nullptr ? kv::most_tokens_of(*strategy, all.spec, made)
                             : made.shape.max_tokens;
}

bool Engine::endless(const KvOptions& options) const {
  return most_tokens(options) > setup(resolved(options)).shape.max_tokens;
}

kv::StoreInfo Engine::store_info(const KvOptions& options) const {
  const KvOptions all = resolved(options);
  return kv::info_of(all.spec, setup(all));
}

kv::StoreInfo Engine::whole_store_info(const KvOptions& options) const {
  const KvOptions all = resolved(options);
  kv::Setup setup = this->setup(all);
  set_layers(model_->whole_config(), all, setup);
  return kv::info_of(all.spec, setup);
}

std::string Engine::arithmetic() const {
  return fmt::format("{}{}{}{}", base::isa_name(kernels_.isa),
                     kernels_.matmul_rounded != nullptr ? "+bf16" : "",
                     library_ != nullptr ? "+library" : "", ranks_arithmetic_);
}

Result<kv::Cost> Engine::cost(const KvOptions& options, const kv::Load& load) const {
  const KvOptions all = resolved(options);
  kv::Setup setup = this->setup(all);
  KVICK_TRY(setup.select.predictor, predictor(all));
  return kv::cost_of(all.spec, setup, load);
}

Result<std::vector<kv::Cost>> Engine::group_costs(const KvOptions& options,
                                                  const kv::Load& load) const {
  const KvOptions all = resolved(options);
  kv::Setup setup = this->setup(all);
  KVICK_TRY(setup.select.predictor, predictor(all));
  return kv::group_costs(all.spec, setup, load);
}

Result<std::string> Engine::render_chat(const nlohmann::ordered_json& messages,
                                        const nlohmann::ordered_json& variables,
                                        ChatEnd end) const {
  if (template_ == nullptr) {
    if (!template_error_.empty())
      return base::fail("the model's chat template cannot be used: {}", template_error_);
    return base::fail("the model has no chat template; give the prompt as it is (--raw)");
  }
  const text::Vocabulary& vocabulary = tokenizer_->vocabulary();
  const auto name = [&](const std::optional<text::Token>& token) {
    return token ? tokenizer_->piece(*token, true) : std::string();
  };
  nlohmann::ordered_json context =
      variables.is_null() ? nlohmann::ordered_json::object() : variables;
  // Overwrites variables of these names, which are the engine's to set.
  context["messages"] = messages;
  context["add_generation_prompt"] = end == ChatEnd::kNewTurn;
  context["bos_token"] = name(vocabulary.bos);
  context["eos_token"] = name(vocabulary.eos);
  KVICK_TRY(std::string prompt, template_->render(context, {.now = now_}));
  if (end == ChatEnd::kLastMessage) KVICK_TRY_VOID(text::cut_behind_last_message(messages, prompt));
  return prompt;
}

Result<std::vector<kv::Token>> Engine::chat_tokens(const nlohmann::ordered_json& messages,
                                                   const nlohmann::ordered_json& variables,
                                                   ChatEnd end) const {
  KVICK_TRY(const std::string prompt, render_chat(messages, variables, end));
  // A template says itself what stands around the messages: nothing is added behind them, and
  // before them only what it leaves out.
  std::vector<kv::Token> tokens = tokenizer_->encode(prompt, false, true);
  const std::vector<kv::Token>& before = tokenizer_->before();
  const bool there =
      tokens.size() >= before.size() && std::equal(before.begin(), before.end(), tokens.begin());
  if (!there) tokens.insert(tokens.begin(), before.begin(), before.end());
  return tokens;
}

}  // namespace kvick::engine
