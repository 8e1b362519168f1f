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

// The arithmetic of a token: that of answers or, if the kernels have one, that of prompts, which is
// for linear layers only (kernels::Table::matmul_prompt) or for attention too (attend_prompt). A
// token must keep its role whenever it is read again, in pieces of any size. Then its logits have
// the same bits each time.
enum class Role : uint8_t { kAnswer, kPromptLayers, kPrompt };

// Adjacent tokens of a batch.
struct TokenRange {
  uint32_t first = 0, tokens = 0;
  uint32_t end() const { return first + tokens; }
};

// Tokens that one sequence adds in a step.
struct Slot {
  kv::SeqId seq{};
  uint32_t past = 0;  // committed tokens of the sequence: the first fresh one has this position
  std::span<const Token> tokens;  // at least 1, all in [0, vocab)
  // Per token its parent: an earlier token of this slot, or -1, the last committed token. Empty: a
  // chain.
  std::span<const int32_t> parents;
  Role role = Role::kAnswer;  // a prompt's role needs a chain, and kernels with that arithmetic
  bool prompt = false;        // kv::Slot::reads_all
  // Whether later prompts that begin with the same tokens may share these rows (kv::Slot::tokens).
  bool reusable = true;
  // The adapter for these tokens, whose terms are multiplied by adapter_scale; null: none. It must
  // be made for this model. Models on several ranks take no adapter.
  const Adapter* adapter = nullptr;
  float adapter_scale = 1;
  // For a pair of texts in one sequence: index of the second text's first token (BERT's token
  // types).
  uint32_t second_text = UINT32_MAX;
  // For a draft model (Model::read_drafter): the final state of the token before each token,
  // [tokens][Config::dim]. Null for other models.
  const float* states = nullptr;
};
// Final states of some tokens: the last layer's output after the final norm.
struct States {
  std::span<const uint32_t> tokens;  // indices in the batch, ascending
  float* floats = nullptr;           // [tokens][Config::dim]
};
struct Batch {
  std::span<const Slot> slots;
  // [layers]: those that forward skips; null: none. A skipped layer writes no rows, so the step
  // cannot be committed. This is for draft tokens (Zhang et al. 2024, Draft & Verify).
  const std::vector<bool>* skipped = nullptr;
  // Transform of keys and values before they are written; must be that of the store's shape.
  kv::Hadamard hadamard = {};
  // Filled by forward, on the calling process; null: no states are wanted. Needs Model::has_states.
  const States* states = nullptr;
  uint32_t tokens() const;
  bool skips(uint32_t layer) const { return skipped != nullptr && (*skipped)[layer]; }
};
// Returns the batch as the store sees it.
std::vector<kv::Slot> kv_slots(const Batch& batch);

// Returns what each layer keeps in the store.
std::vector<kv::LayerSpec> kv_layers(const Config& config);
// Writes the layers into `setup`, whose shape already has the types and max_tokens (0: the model's
// context). Fills the shape if all layers keep rows of one size and have one window, and
// Setup::layers otherwise.
void set_layers(const Config& config, kv::Setup& setup);

// How ranks divide a model: a part of every layer each, or some of the layers each.
enum class RankSplit : uint8_t { kTensor, kPipeline };

struct LoadOptions {
  const kernels::Table* kernels = nullptr;  // required
  base::ThreadPool* pool = nullptr;         // required: packs the weights
  // Called after each tensor with the bytes done and the bytes in all, always from one thread.
  base::FunctionRef<void(uint64_t done, uint64_t total)>* progress = nullptr;
  // Tokens whose logits are computed, in this order; empty: the whole vocabulary. Ids below vocab.
  std::span<const Token> outputs = {};
  std::span<const Family> families = {};  // architectures besides kvick's own, looked up first
  // The processes that compute the model together, each its share; null: only this process. They
  // must outlive the model.
  Ranks* ranks = nullptr;
  // Maximum tokens per sequence (read_config); 0: the model's context.
  uint32_t sequence = 0;
  RankSplit split = RankSplit::kTensor;
  // The folder for packed weights, so that a later load finds them; null: they are not stored.
  const io::PackedOptions* packed = nullptr;
  // Maximum bytes of experts in memory; other experts are read from the packed file (`packed`) on
  // demand. 0: all experts are in memory.
  uint64_t expert_bytes = 0;
};

// Weights of one model, repacked for one instruction set. Immutable after load, shared by any
// number of workspaces.
class Model {
 public:
  // Loads a model. Errors: an unknown architecture (the message lists the known ones), a missing or
  // misshapen tensor, a contradictory or missing key. With expert_bytes also: packed weights that
  // cannot be stored (otherwise that is no error), and fewer bytes than the model's minimum.
  static base::Result<std::unique_ptr<Model>> load(io::ModelFile file, const LoadOptions& options);
  virtual ~Model() = default;

  // With several ranks: the config of this rank's share.
  const Config& config() const { return config_; }
  // The config of the whole model, on every rank.
  const Config& whole_config() const { return whole_config_ ? *whole_config_ : config_; }
  Ranks* ranks() const { return ranks_; }
  // How the ranks divide the model.
  RankSplit split() const { return split_; }
  // Number of layers of the whole model, which is the size of Batch::skipped.
  uint32_t all_layers() const { return all_layers_; }
  // Index of this rank's first layer in the whole model; config() has only the rank's own layers.
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
  // Returns the shape that set_layers makes. The model's layers and windows must be alike.
  kv::Shape kv_shape(kernels::DType k_type, kernels::DType v_type, uint32_t max_tokens = 0) const;

  // Returns keys and initial values for the store if the model was trained with slots, else null.
  virtual const kv::Slots* trained_slots() const { return nullptr; }

  // Returns hits and misses of a model loaded with LoadOptions::expert_bytes. Any thread.
  virtual std::optional<ExpertStats> expert_stats() const { return std::nullopt; }

  // Returns the shape of a tensor of the model's file, outermost dimension first; empty: there is
  // no tensor of that name.
  virtual std::vector<uint64_t> shape_of(std::string_view tensor) const = 0;

  // Whether forward() fills Batch::states. It does not if another process has the last layers.
  virtual bool has_states() const { return true; }
  // Whether the model has a head for Pooling::kRank.
  virtual bool scores_pairs() const { return false; }
  // Applies the head to a text's pooled states, [dim]: returns an embedding; for kRank a score of 0
  // to 1.
  virtual std::vector<float> head_of(Pooling kind, std::vector<float> pooled) const {
    KVICK_CHECK(kind != Pooling::kRank, "{} scores no pairs", config_.name);
    return pooled;
  }

  // Reads a draft model from the file's multi-token-prediction layer. It predicts the next token
  // from a token and the state before it, Slot::states. It shares this model's embedding and output
  // layer, so this model must outlive it. Errors: the file has no such layer; ranks compute this
  // model.
  virtual base::Result<std::unique_ptr<Model>> read_drafter(const LoadOptions& options) const = 0;

  // Runs the batch through all layers and writes its keys and values into `step` (made from
  // kv_slots(batch)). Writes the logits of the tokens `wanted` (indices in batch order, ascending)
  // to logits: [wanted][outputs()]. Does not commit. A token's logits and state have the same bits
  // whatever else is in the batch and however its past was batched, if each token keeps its role.
  // With ranks, all of them call it together, and rank 0 gets the logits.
  virtual void forward(const Batch& batch, kv::Step& step, Workspace& workspace,
                       std::span<const uint32_t> wanted, float* logits) const = 0;
  // A rank that cannot compute its part calls this instead of forward(), so that the others stop
  // waiting.
  virtual void give_up() const = 0;

 protected:
  explicit Model(Config config) : config_(std::move(config)) {}
  Config config_;
  std::optional<Config> whole_config_;  // set with ranks only
  Ranks* ranks_ = nullptr;
  RankSplit split_ = RankSplit::kTensor;
  uint32_t all_layers_ = config_.layer_count();
  uint32_t first_layer_ = 0;
  uint32_t outputs_ = config_.vocab;
  Weights weights_;
  base::Arena memory_{size_t{32} << 20};  // holds the packed matrices, in huge pages
};

}  // namespace kvick::model
