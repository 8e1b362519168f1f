#pragma once
// A model ready to run: weights, tokenizer, chat template, threads and kernels, and the stores made
// for it.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/artifacts/identity.h"
#include "engine/artifacts/predictor_cache.h"
#include "engine/core/engine_options.h"
#include "engine/options/auto_type.h"
#include "engine/options/kv_options.h"
#include "engine/sampling/model_sampling.h"
#include "kv/registry/registry.h"
#include "kv/strategy/facet_calls.h"
#include "model/core/executor.h"
#include "model/core/model.h"
#include "text/template/answer_syntax.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::engine {

// Returns the kernels of an instruction set. Error: it lacks products of bfloat16.
base::Result<const kernels::Table*> choose_table(base::Isa isa, FloatActivations activations);

using Token = kv::Token;

// What a chat's prompt ends with: the beginning of the assistant's next turn, the last turn's end,
// or the text of the last message, which the answer continues.
enum class ChatEnd { kNewTurn, kTurn, kLastMessage };

class Engine {
 public:
  // Errors: what is wrong with the file, with its name; what the instruction set lacks.
  static base::Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
  // Makes an engine with the same weights, tokenizer and template, and with threads of its own.
  std::unique_ptr<Engine> instance(const base::Team& team) const;

  const model::Model& model() const { return *model_; }
  // The processes that run the model together; null: only this one.
  model::Ranks* ranks() const { return model_->ranks(); }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const kernels::Table& kernels() const { return kernels_; }
  base::ThreadPool& pool() { return *pool_; }
  uint64_t file_bytes() const { return file_bytes_; }
  const FileSummary& file_summary() const { return file_summary_; }
  const ModelSampling& sampling() const { return sampling_; }
  const Adapters& adapters() const { return adapters_; }  // in EngineOptions::adapters' order
  // What the library has compiled for attention of kBmm; otherwise null.
  const kernels::BucketAttention* library() const { return library_.get(); }

  const ModelIdentity& identity() const { return identity_; }
  // Identifies the rows that the model computes: a hash of every byte of its files, and the
  // configuration read from them. Empty unless EngineOptions::fingerprint asked for it.
  const std::string& fingerprint() const { return fingerprint_; }
  // The instruction set and whatever else changes how products round; of ranks, that of all ranks.
  std::string arithmetic() const;
  void set_ranks_arithmetic(std::string text) { ranks_arithmetic_ = std::move(text); }
  // Returns the role of prompt tokens in such a store. kAnswer: all tokens have this role, so a
  // prompt may share rows of an answer. With other roles it must not.
  model::Role prompt_role(const KvOptions& options) const;
  model::Workspace make_workspace() const;
  model::Executor make_executor() const { return {*model_, make_workspace()}; }

  // Fills in what was not given: `bounded` and f32 for a model with slots, else f16 and the first
  // strategy (with a tier, the one for slower tiers). Types that cannot be chosen stay open.
  KvOptions resolved(KvOptions options) const;
  // AutoTypes::choose for these options. On any thread.
  base::Result<ChosenType> choose_type(const KvOptions& options) const;
  // Errors: an unknown strategy or option, one that does not fit the model or the engine's
  // attention, a longer context than the model's, a file that cannot be read or is another model's;
  // options that a model with different kinds of layers refuses (layer_options.h).
  base::Result<std::unique_ptr<kv::Store>> make_store(const KvOptions& options) const;
  // Whether make_store would accept the options. Measures and reads nothing. On any thread.
  base::Status<> check_kv(const KvOptions& options) const;
  base::Status<> check_writes() const;  // error: the model is an encoder, which writes no text
  uint32_t most_tokens(const KvOptions& options) const;  // kv::Store::most_tokens of such a store
  bool endless(const KvOptions& options) const;  // whether most_tokens exceeds the cache's context
  kv::StoreInfo store_info(const KvOptions& options) const;
  kv::StoreInfo whole_store_info(const KvOptions& options) const;  // of all ranks together
  // Returns what such a store costs, by its strategy's formulas.
  base::Result<kv::Cost> cost(const KvOptions& options, const kv::Load& load) const;
  // The same of each group of layers, in the order of store_info's groups.
  base::Result<std::vector<kv::Cost>> group_costs(const KvOptions& options,
                                                  const kv::Load& load) const;

  // How the model writes answers, learnt from the chat template; and whether some of its marks are
  // special tokens, which an answer's text omits unless they are requested.
  const text::AnswerSyntax& answer_syntax() const { return *syntax_; }
  bool marks_are_special() const { return marks_are_special_; }
  bool has_chat_template() const { return !tokenizer_->vocabulary().chat_template.empty(); }
  // Returns a chat's prompt. messages: [{"role", "content"}, ...]; variables: an object with
  // further template variables, such as {"tools": [...]}. Error: the model has no template, or the
  // template refuses the messages or changes the last one, which the answer should continue.
  base::Result<std::string> render_chat(const nlohmann::ordered_json& messages,
                                        const nlohmann::ordered_json& variables = {},
                                        ChatEnd end = ChatEnd::kNewTurn) const;
  // The same as tokens, with what the tokenizer adds before a text unless the template wrote it.
  base::Result<std::vector<kv::Token>> chat_tokens(const nlohmann::ordered_json& messages,
                                                   const nlohmann::ordered_json& variables = {},
                                                   ChatEnd end = ChatEnd::kNewTurn) const;

 private:
  explicit Engine(const kernels::Table& kernels) : kernels_(kernels) {}
  kv::Setup setup(const KvOptions& resolved) const;
  base::Status<> check(const KvOptions& resolved) const;
  void learn_syntax();
  // Returns null for policies that need no predictor, and if no file is given.
  base::Result<std::shared_ptr<const kv::Predictor>> predictor(const KvOptions& resolved) const;
  base::Result<kv::GrowthRates> growth_rates(const kv::Setup& setup) const;

  const kernels::Table& kernels_;
  std::shared_ptr<kernels::BucketAttention> library_;
  PromptArithmetic prompt_arithmetic_ = PromptArithmetic::kExact;
  // Key of measured growth rates: context and element types of keys and values.
  using Measured = std::tuple<uint32_t, kernels::DType, kernels::DType>;
  mutable PredictorCache predictors_;
  mutable std::mutex growth_rates_mutex_;
  mutable std::map<Measured, kv::GrowthRates> growth_rates_;
  std::unique_ptr<base::ThreadPool> pool_;
  // Shared by instances, as the weights are.
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const text::ChatTemplate> template_;
  std::shared_ptr<const text::AnswerSyntax> syntax_ = std::make_shared<text::AnswerSyntax>();
  bool marks_are_special_ = false;
  std::function<std::tm()> now_;
  std::shared_ptr<model::Ranks> ranks_;
  std::shared_ptr<const model::Model> model_;
  Adapters adapters_;
  std::string template_error_;  // why template_ is null although the model has one
  uint64_t file_bytes_ = 0;
  FileSummary file_summary_;
  ModelSampling sampling_;
  ModelIdentity identity_;
  std::string fingerprint_;
  std::string ranks_arithmetic_;
  std::shared_ptr<AutoTypes> auto_types_;
};

}  // namespace kvick::engine
