#pragma once
// Tokens in, logits out: one forward for prefill, decode, ragged batches and draft trees.
// Larger than 150 lines because batch, options, weights and model are one contract for callers.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "io/file/model_file.h"
#include "kernels/table/table.h"
#include "kv/contract/kv.h"
#include "kv/values/layer_spec.h"
#include "model/core/config.h"
#include "model/core/weight_sizes.h"
#include "model/core/workspace.h"
#include "model/matrices/expert_stats.h"

namespace kvick::io {
struct PackedOptions;
}
namespace kvick::kv {
struct Setup;
struct Slots;
}  // namespace kvick::kv

namespace kvick::model {

using Token = kv::Token;
struct Family;
class Adapter;
class Ranks;

// Which arithmetic a token gets: that of answers, or, where the kernels have one, that of prompts,
// for linear layers only (kernels::Table::matmul_prompt) or for attention too (attend_prompt). A
// token must keep its role whenever it is read again, in pieces of any size: then its logits have
// the same bits each time.
enum class Role : uint8_t { kAnswer, kPromptLayers, kPrompt };

// Some of a batch's tokens, next to each other.
struct TokenRange {
  uint32_t first = 0, tokens = 0;
  uint32_t end() const { return first + tokens; }
};

// Tokens that one sequence adds in a step.
struct Slot {
  kv::SeqId seq{};
  uint32_t past = 0;  // committed tokens of the sequence: the first fresh one has this position
  std::span<const Token> tokens;     // at least 1, all in [0, vocab)
  std::span<const int32_t> parents;  // per token an earlier token of this slot, or -1: the last
                                     // committed; empty: a chain
  Role role = Role::kAnswer;         // of a prompt: a chain, and kernels that have its arithmetic
  bool prompt = false;               // kv::Slot::reads_all
  // Whether prompts that begin with the same tokens may be given these rows (kv::Slot::tokens).
  bool reusable = true;
  // The adapter for these tokens, whose terms are multiplied by adapter_scale; null: none. Must be
  // made for this model; not with ranks.
  const Adapter* adapter = nullptr;
  float adapter_scale = 1;
  // For a pair of texts in one sequence: the token where the second begins (BERT's token types).
  uint32_t second_text = UINT32_MAX;
  // For a draft model (Model::read_drafter): per token the final state of the token before it,
  // [tokens][Config::dim]. Else null.
  const float* states = nullptr;
};
// Final states of some tokens: the last layer's output after the last norm.
struct States {
  std::span<const uint32_t> tokens;  // of the batch, ascending
  float* floats = nullptr;           // [tokens][Config::dim]
};
struct Batch {
  std::span<const Slot> slots;
  // Layers that forward skips, [layers], or null. Their rows are not written, so the step cannot be
  // committed: this is for draft tokens (Zhang et al. 2024, Draft & Verify).
  const std::vector<bool>* skipped = nullptr;
  // Transform of keys and values before they are written, as in the store's shape.
  kv::Hadamard hadamard = {};
  // Filled by forward, on the calling process; null: no states wanted. Needs Model::has_states.
  const States* states = nullptr;
  uint32_t tokens() const;
  bool skips(uint32_t layer) const { return skipped != nullptr && (*skipped)[layer]; }
};
// The same batch as the store sees it.
std::vector<kv::Slot> kv_slots(const Batch& batch);

// What each layer keeps in the store.
std::vector<kv::LayerSpec> kv_layers(const Config& config);
// Enters the same into `setup`, whose shape has the types and max_tokens (0: the model's context):
// fills its shape if all layers keep rows of one size and have one window, else Setup::layers.
void set_layers(const Config& config, kv::Setup& setup);

// What each rank has of a model: a part of every layer, or some of the layers.
enum class RankSplit : uint8_t { kTensor, kPipeline };

struct LoadOptions {
  const kernels::Table* kernels = nullptr;  // required
  base::ThreadPool* pool = nullptr;         // required: packs the weights
  // Called after each tensor with bytes done and bytes in all; may be called from one thread only.
  base::FunctionRef<void(uint64_t done, uint64_t total)>* progress = nullptr;
  // Tokens of the vocabulary whose logits are computed, in this order; empty: all. Ids below vocab.
  std::span<const Token> outputs = {};
  std::span<const Family> families = {};  // beside those that kvick has, and before them
  // The processes that compute the model together, each its share; null: only this one. They
  // outlive the model.
  Ranks* ranks = nullptr;
  // Most tokens per sequence (read_config); 0: the model's context.
  uint32_t sequence = 0;
  RankSplit split = RankSplit::kTensor;
  // Where packed weights are kept, so that a later load finds them; null: nowhere.
  const io::PackedOptions* packed = nullptr;
  // Most bytes of experts that are kept in memory; the others are read from the packed file
  // (`packed`) on demand. 0: all experts are in memory.
  uint64_t expert_bytes = 0;
};

// Weights of one model, repacked for one instruction set. Immutable after load, shared by any
// number of workspaces.
class Model {
 public:
  // Errors: an unknown architecture (the message lists the known ones), a missing or misshapen
  // tensor, a contradictory or missing key. With expert_bytes also: packed weights that cannot be
  // stored (else that is no error), and fewer bytes than the model's minimum.
  static base::Result<std::unique_ptr<Model>> load(io::ModelFile file, const LoadOptions& options);
  virtual ~Model() = default;

  // With ranks: the config of this rank's share.
  const Config& config() const { return config_; }
  // The whole model's; config() has this rank's share of it.
  const Config& whole_config() const { return whole_config_ ? *whole_config_ : config_; }
  Ranks* ranks() const { return ranks_; }
  // How ranks divide it.
  RankSplit split() const { return split_; }
  // Layers of the whole model, as Batch::skipped has them.
  uint32_t all_layers() const { return all_layers_; }
  // The index of this rank's first layer among these; config() has only the rank's own layers.
  uint32_t first_layer() const { return first_layer_; }
  // Number of logits per token: the size of the vocabulary or of LoadOptions::outputs.
  uint32_t outputs() const { return outputs_; }
  const Weights& weights() const { return weights_; }
  // Bytes of packed weights, in this process's memory or mapped. An embedding tied to the output
  // layer counts once.
  uint64_t weight_bytes() const {
    return weights_.layers.bytes + weights_.experts.bytes + weights_.output.bytes +
           weights_.key_bytes;
  }
  std::vector<kv::LayerSpec> kv_layers() const { return model::kv_layers(config_); }
  // set_layers of a model whose layers and windows are alike.
  kv::Shape kv_shape(kernels::DType k_type, kernels::DType v_type, uint32_t max_tokens = 0) const;

  // Keys and initial values for its store if it was trained with a memory of slots, else null.
  virtual const kv::Slots* trained_slots() const { return nullptr; }

  // Hits and misses of a model loaded with LoadOptions::expert_bytes. Any thread.
  virtual std::optional<ExpertStats> expert_stats() const { return std::nullopt; }

  // Shape of a tensor of its file, outermost dimension first; empty: no tensor of that name.
  virtual std::vector<uint64_t> shape_of(std::string_view tensor) const = 0;

  // Whether forward() fills Batch::states: not where another process has the last layers.
  virtual bool has_states() const { return true; }
  // Whether it has a head for Pooling::kRank.
  virtual bool scores_pairs() const { return false; }
  // Applies its head to a text's pooled states, [dim]: an embedding; for kRank a score of 0 to 1.
  virtual std::vector<float> head_of(Pooling kind, std::vector<float> pooled) const {
    KVICK_CHECK(kind != Pooling::kRank, "{} scores no pairs", config_.name);
    return pooled;
  }

  // A draft model from the file's multi-token-prediction layer: predicts the next token from a
  // token and the state before it, Slot::states. It shares this model's embedding and output layer;
  // this model outlives it. Errors: the file has no such layer; this model is computed by ranks.
  virtual base::Result<std::unique_ptr<Model>> read_drafter(const LoadOptions& options) const = 0;

  // Runs the batch through all layers, writing its keys and values into `step` (made from
  // kv_slots(batch)), and puts the logits of the tokens `wanted` (indices in batch order,
  // ascending) into logits: [wanted][outputs()]. Does not commit. A token's logits and its state
  // are the same bits whatever else is in the batch and however its past was batched, each token in
  // its role. With ranks all of them call it together, and rank 0 gets the logits.
  virtual void forward(const Batch& batch, kv::Step& step, Workspace& workspace,
                       std::span<const uint32_t> wanted, float* logits) const = 0;
  // A rank that cannot compute its part calls this instead of forward(): the others stop waiting.
  virtual void give_up() const = 0;

 protected:
  explicit Model(Config config) : config_(std::move(config)) {}
  Config config_;
  std::optional<Config> whole_config_;  // with ranks
  Ranks* ranks_ = nullptr;
  RankSplit split_ = RankSplit::kTensor;
  uint32_t all_layers_ = config_.layer_count();
  uint32_t first_layer_ = 0;
  uint32_t outputs_ = config_.vocab;
  Weights weights_;
  base::Arena memory_{size_t{32} << 20};  // of the packed matrices, in huge pages
};

}  // namespace kvick::model
