#pragma once
// The numbers that define a model, read from the metadata of its file and checked.
// Larger than 150 lines because they are one value.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/file/model_file.h"
#include "kv/values/hadamard.h"

namespace kvick::model {

// Rotary embedding: pair i of a head is rotated by the angle position * frequency[i].
struct Rope {
  uint32_t dims = 0;              // the first elements of a head, which are rotated
  bool interleaved = false;       // pairs are (2i, 2i+1), else (i, i + dims/2)
  std::vector<double> frequency;  // [dims/2], scaling included
  float magnitude = 1;            // factor on cosines and sines (YaRN's attention factor)
  bool operator==(const Rope&) const = default;
};

// A mixture of experts instead of a feed-forward block: each token goes through some of them.
struct ExpertsConfig {
  // How the router's logits become scores: by a softmax over all experts, a sigmoid of each logit,
  // or a softmax over the chosen experts only. The largest scores choose the experts and are their
  // weights.
  enum class Router : uint8_t { kSoftmax, kSigmoid, kSoftmaxOfChosen };

  uint32_t count = 0, used = 0;  // experts, and those that one token uses; 0: the layer has none
  uint32_t ffn = 0;              // width of each expert
  uint32_t shared_ffn = 0;       // width of the shared expert, through which all tokens go; 0: none
  // Experts are chosen from the best `groups_used` of `groups` groups (DeepSeek-V3, section 2.1.2).
  uint32_t groups = 1, groups_used = 1;
  Router router = Router::kSoftmax;
  bool normalised = false;  // weights are divided by their sum
  float scale = 1;          // the weights are then multiplied by this

  // Returns the expected share (0 to 1) of the experts that a batch of `tokens` tokens uses if the
  // routers choose uniformly.
  double share_read(double tokens) const;
  bool operator==(const ExpertsConfig&) const = default;
};

// Latent attention (DeepSeek-V2, section 2.1): the keys and values of all heads are projected from
// one vector per token, plus a rotated part of the keys that all heads share.
struct LatentConfig {
  uint32_t rank = 0;                // width of that vector; 0: no latent attention
  uint32_t q_rank = 0;              // width of the vector that queries are projected from; 0: none
  uint32_t plain = 0, rotated = 0;  // unrotated and rotated elements of a query or key head
  uint32_t v_dim = 0;               // elements of a value head

  uint32_t row() const { return rank + rotated; }  // floats kept per token
  bool operator==(const LatentConfig&) const = default;
};

// Queries are multiplied by 1 + scale * log(floor((position + offset) / floor) + 1) (Llama 4).
struct QueryTemperature {
  float scale = 0, floor = 1, offset = 0;
  float at(uint32_t position) const;
};

// The state that a layer keeps instead of rows of earlier tokens, in float32 (kv::StateKeeper): the
// last inputs of a convolution over time, followed by a matrix per head.
struct StateConfig {
  // A gated short convolution only (LFM2), a state space (Mamba-2), a gated delta net (Qwen3.5).
  enum class Kind : uint8_t { kNone, kShortConv, kMamba2, kGatedDelta };

  Kind kind = Kind::kNone;
  uint32_t conv_kernel = 0;    // tokens that the convolution covers, including the current one
  uint32_t conv_channels = 0;  // each channel is convolved separately
  uint32_t heads = 0;          // number of matrices; 0: the layer is only a convolution
  uint32_t groups = 0;         // heads / groups heads share B and C, or a key and a query
  uint32_t head_dim = 0;       // rows of a matrix: elements of a head's value
  uint32_t state_size = 0;     // columns of a matrix: elements of B and C, or of a key and a query
  bool tiled = false;          // heads g, g + groups, ... share them; else adjacent heads

  uint32_t inner() const { return heads * head_dim; }
  uint32_t group_of(uint32_t head) const { return tiled ? head % groups : head / (heads / groups); }
  size_t conv_floats() const { return size_t{conv_kernel - 1} * conv_channels; }
  size_t head_floats() const { return size_t{head_dim} * state_size; }
  // Floats of the state of one sequence in one layer.
  size_t floats() const { return conv_floats() + heads * head_floats(); }
  bool operator==(const StateConfig&) const = default;
};

// The numbers of one layer.
struct LayerConfig {
  static constexpr uint32_t kNone = UINT32_MAX;
  // How its tokens see earlier ones: by attention over rows, by attention over slots (bct), by a
  // state, or not at all. The last two have no heads; the last is only a feed-forward block.
  enum class Kind : uint8_t { kAttention, kSlots, kState, kFeedForward };

  Kind kind = Kind::kAttention;
  uint32_t heads = 0, kv_heads = 0;
  uint32_t k_dim = 0, v_dim = 0;  // elements of a query or key head, and of a value head
  // Only in latent layers; there kv_heads is 1, k_dim latent.row() and v_dim latent.rank.
  LatentConfig latent;
  uint32_t ffn = 0;  // width of the feed-forward block; 0: the layer has experts, or no such block
  ExpertsConfig experts;
  uint32_t window = 0;    // tokens that a query sees, including its own; 0: all
  bool chunked = false;   // the window restarts at multiples of its size (Llama 4)
  uint32_t rope = kNone;  // index into Config::ropes; kNone: no rotary embedding
  float scale = 1;        // factor on attention logits
  float softcap = 0;      // c: logits become c * tanh(logit / c); 0: no softcap
  bool sinks = false;     // each head has one additional logit without a value (gpt-oss)
  // ALiBi (Press et al. 2022), only in layers that see both ways: per token of distance between
  // query and key, the logits of head i of n decrease by 2^(-alibi * i / n). 0: no ALiBi.
  float alibi = 0;
  bool tempered = false;  // queries are scaled by Config::temperature
  // Gate values below their mean + sparsity standard deviations are set to zero (Gemma 3n). 0: all
  // gate values are used.
  float sparsity = 0;
  uint32_t rows_of = kNone;  // the layer whose keys and values it reads; kNone: it has its own
  StateConfig state;         // of Kind::kState
  // Tokens also see later ones, in a step that holds the whole text. No rows are kept. A window is
  // then centred on the query.
  bool both_ways = false;

  // Returns the attention of most models: all heads of one size, logits scaled by 1/sqrt(head_dim).
  static LayerConfig attention(uint32_t heads, uint32_t kv_heads, uint32_t head_dim);

  bool attends() const { return kind == Kind::kAttention || kind == Kind::kSlots; }
  uint32_t group() const { return kv_heads == 0 ? 1 : heads / kv_heads; }
  // Floats of one token's queries, keys, values and attention output.
  uint32_t q_floats() const { return heads * k_dim; }
  uint32_t k_floats() const { return kv_heads * k_dim; }
  uint32_t v_floats() const { return kv_heads * v_dim; }
  uint32_t out_floats() const { return heads * v_dim; }
  bool owns_rows() const { return rows_of == kNone; }
  bool is_latent() const { return latent.rank > 0; }
  kv::HadamardBlocks hadamard_blocks(kv::Hadamard which) const {
    return kv::hadamard_blocks(which, k_dim, v_dim, is_latent());
  }
  bool operator==(const LayerConfig&) const = default;
};

// How a text's final states become one vector, by GGUF's names: their mean, the first token's state
// or the last token's. kRank: the score that the model's head gives a pair of texts
// (Model::scores_pairs).
enum class Pooling : uint8_t { kMean, kCls, kLast, kRank };

struct Config {
  std::string arch, name;
  uint32_t dim = 0;
  uint32_t vocab = 0;
  uint32_t context = 0;            // longest context that the model was trained on, in tokens
  bool learned_positions = false;  // position embeddings: at most `context` positions
  float norm_eps = 0;
  float embedding_scale = 1;  // factor on the embedding's rows
  float residual_scale =
      1;  // factor on each block's output before it is added to the residual stream
  float logit_scale = 1;
  float logit_softcap = 0;    // as LayerConfig::softcap, applied after logit_scale
  uint32_t layer_inputs = 0;  // floats of the per-layer input that each token has (Gemma 3n)
  // Number of residual streams; blocks read and write the first (AltUp, Baykal et al. 2023).
  uint32_t streams = 1;
  QueryTemperature temperature;
  std::optional<Pooling> pooling;   // none: the file does not say
  Pooling scored = Pooling::kLast;  // pooling before the head that scores pairs; not kRank
  bool head_norms = true;  // false: the model does not normalise heads although its family does
  bool norm_behind_rope = false;  // queries and keys are normalised after rotation
  std::vector<Rope> ropes;
  std::vector<LayerConfig> layers;

  uint32_t layer_count() const { return static_cast<uint32_t>(layers.size()); }
  // Whether the model is an encoder: it reads texts, each in one step, and generates none.
  bool both_ways() const { return !layers.empty() && layers.front().both_ways; }
  uint32_t most_positions() const { return learned_positions ? context : UINT32_MAX; }
  // Returns the rotary embedding of a layer, or an empty one.
  const Rope& rope_of(uint32_t layer) const;
  // Returns the rotary embedding of the keys that a selection policy chooses from: that of the
  // layers that see all rows or, if there are none, of heads_layer().
  const Rope& rope_of_full() const;
  // Returns the layer whose heads represent the model: the first that attends or, if none does, the
  // first.
  const LayerConfig& heads_layer() const;
  bool keeps_states() const;  // whether any layer keeps a state
  // Whether all layers keep their own rows, of one shape with keys as wide as values, and have the
  // same number of query heads.
  bool layers_alike() const;
  // Whether all layers have the same window, or none.
  bool windows_alike() const;
};

// Reads the `<arch>.*` keys according to the architecture's description in families/; for an
// unknown architecture, only the sizes. A number of layers may be an array with one entry per
// layer. Errors name the key and the value. Every number is bounded so that no later product
// overflows.
base::Result<Config> read_config(const io::ModelFile& file);

}  // namespace kvick::model
