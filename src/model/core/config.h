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

// Rotary embedding: pair i of a head turns by position * frequency[i].
struct Rope {
  uint32_t dims = 0;              // elements of a head that turn, from the first
  bool interleaved = false;       // pairs (2i, 2i+1), else (i, i + dims/2)
  std::vector<double> frequency;  // [dims/2], scaling included
  float magnitude = 1;            // factor on cosines and sines (YaRN's attention factor)
  bool operator==(const Rope&) const = default;
};

// A mixture of experts in place of a feed-forward block: each token goes through some of them.
struct ExpertsConfig {
  // What the router's logits become, of which the largest choose the experts and weigh them: a
  // softmax over all, a sigmoid of each, or a softmax over the chosen ones alone.
  enum class Router : uint8_t { kSoftmax, kSigmoid, kSoftmaxOfChosen };

  uint32_t count = 0, used = 0;  // 0: the layer has none; used: by one token
  uint32_t ffn = 0;              // width of each
  uint32_t shared_ffn = 0;       // of the expert that all tokens go through beside; 0: none
  // Experts are chosen from the best `groups_used` of so many groups (DeepSeek-V3, section 2.1.2).
  uint32_t groups = 1, groups_used = 1;
  Router router = Router::kSoftmax;
  bool normalised = false;  // weights are divided by their sum
  float scale = 1;          // and multiplied by this

  // Expected share of the experts that a batch of so many tokens uses, if routers choose uniformly.
  double share_read(double tokens) const;
  bool operator==(const ExpertsConfig&) const = default;
};

// Latent attention (DeepSeek-V2, section 2.1): the keys and values of all heads are products of one
// vector of a token, beside a part of the keys that turns and that all heads share.
struct LatentConfig {
  uint32_t rank = 0;                // of that vector; 0: a layer has keys and values of its heads
  uint32_t q_rank = 0;              // of the vector that queries are products of; 0: there is none
  uint32_t plain = 0, rotated = 0;  // elements of a query or key head that do not turn, that do
  uint32_t v_dim = 0;               // of a value head

  uint32_t row() const { return rank + rotated; }  // what is kept of a token
  bool operator==(const LatentConfig&) const = default;
};

// Queries are multiplied by 1 + scale * log(floor((position + offset) / floor) + 1) (Llama 4).
struct QueryTemperature {
  float scale = 0, floor = 1, offset = 0;
  float at(uint32_t position) const;
};

// What a layer keeps of all tokens before instead of their rows, in float32 (kv::StateKeeper): the
// last inputs of a convolution over time, then a matrix for each head.
struct StateConfig {
  // A gated short convolution alone (LFM2), a state space (Mamba-2), a gated delta net (Qwen3.5).
  enum class Kind : uint8_t { kNone, kShortConv, kMamba2, kGatedDelta };

  Kind kind = Kind::kNone;
  uint32_t conv_kernel = 0;    // tokens that the convolution sees, the one itself included
  uint32_t conv_channels = 0;  // each of them is convolved by itself
  uint32_t heads = 0;          // matrices; 0: the layer is a convolution alone
  uint32_t groups = 0;         // heads / groups neighbours share B and C, or a key and a query
  uint32_t head_dim = 0;       // rows of a matrix: values of a head
  uint32_t state_size = 0;     // columns of a matrix: what B and C, or keys and queries, have
  bool tiled = false;          // heads g, g + groups, ... share them, not neighbours

  uint32_t inner() const { return heads * head_dim; }
  uint32_t group_of(uint32_t head) const { return tiled ? head % groups : head / (heads / groups); }
  size_t conv_floats() const { return size_t{conv_kernel - 1} * conv_channels; }
  size_t head_floats() const { return size_t{head_dim} * state_size; }
  // Of a sequence, in one layer.
  size_t floats() const { return conv_floats() + heads * head_floats(); }
  bool operator==(const StateConfig&) const = default;
};

// The numbers of one layer.
struct LayerConfig {
  static constexpr uint32_t kNone = UINT32_MAX;
  // How its tokens see those before them: attention over rows, or over a memory of slots (bct); a
  // state; or not at all. The last two have no heads, and the last is a feed-forward block alone.
  enum class Kind : uint8_t { kAttention, kSlots, kState, kFeedForward };

  Kind kind = Kind::kAttention;
  uint32_t heads = 0, kv_heads = 0;
  uint32_t k_dim = 0, v_dim = 0;  // elements of a query or key head, and of a value head
  // Of latent layers, whose kv_heads are 1, k_dim a row and v_dim its rank: what attention sees.
  LatentConfig latent;
  uint32_t ffn = 0;  // width of the feed-forward block; 0: it has experts, or no such block
  ExpertsConfig experts;
  uint32_t window = 0;    // tokens that a query sees, itself included; 0: all
  bool chunked = false;   // the window restarts at multiples of its size (Llama 4)
  uint32_t rope = kNone;  // index into Config::ropes; kNone: no rotary embedding
  float scale = 1;        // of the attention's logits
  float softcap = 0;      // c: logits become c * tanh(logit / c); 0: they stay
  bool sinks = false;     // each head has one logit more, without a value (gpt-oss)
  // Logits fall with the distance of query and key, of head i of n by 2^(-alibi * i / n) for each
  // token (ALiBi, Press et al. 2022; of layers that see both ways alone); 0: they do not.
  float alibi = 0;
  bool tempered = false;  // queries are scaled by Config::temperature
  // Of a gate's values those below their mean + sparsity standard deviations count as none (Gemma
  // 3n); 0: all count.
  float sparsity = 0;
  uint32_t rows_of = kNone;  // the layer whose keys and values it reads; kNone: its own
  StateConfig state;         // of Kind::kState
  // The tokens of a text see those behind them too, within a step that has all of the text; nothing
  // is kept. A window then lies around the query, as far to both sides.
  bool both_ways = false;

  // Attention as most models have it: heads of one size, logits scaled by 1/sqrt(head_dim).
  static LayerConfig attention(uint32_t heads, uint32_t kv_heads, uint32_t head_dim);

  bool attends() const { return kind == Kind::kAttention || kind == Kind::kSlots; }
  uint32_t group() const { return kv_heads == 0 ? 1 : heads / kv_heads; }
  // Floats of one token's queries, keys, values and attended values.
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

// How a text's final states become one vector, by GGUF's names: their mean, the first token's, the
// last token's; or the score that the model's head gives a pair of texts (Model::scores_pairs).
enum class Pooling : uint8_t { kMean, kCls, kLast, kRank };

struct Config {
  std::string arch, name;
  uint32_t dim = 0;
  uint32_t vocab = 0;
  uint32_t context = 0;            // most tokens that the model was trained to see at once
  bool learned_positions = false;  // a table of `context` positions: it knows no further ones
  float norm_eps = 0;
  float embedding_scale = 1;  // of the embedding's rows
  float residual_scale = 1;   // of what a block adds to the residual stream
  float logit_scale = 1;
  float logit_softcap = 0;    // as LayerConfig::softcap, after logit_scale
  uint32_t layer_inputs = 0;  // floats of each layer that a token has of its own (Gemma 3n)
  // Residual streams, of which the first is what blocks read and write (AltUp, Baykal et al. 2023).
  uint32_t streams = 1;
  QueryTemperature temperature;
  std::optional<Pooling> pooling;   // none: the file says nothing
  Pooling scored = Pooling::kLast;  // the states that a head that scores pairs reads; not kRank
  bool head_norms = true;           // false: heads are not normalised though the family does
  bool norm_behind_rope = false;    // queries and keys are normalised once they were turned
  std::vector<Rope> ropes;
  std::vector<LayerConfig> layers;

  uint32_t layer_count() const { return static_cast<uint32_t>(layers.size()); }
  // Whether it is an encoder: it reads texts, each in one step, and writes none.
  bool both_ways() const { return !layers.empty() && layers.front().both_ways; }
  uint32_t most_positions() const { return learned_positions ? context : UINT32_MAX; }
  // The rotation of a layer, or one of nothing.
  const Rope& rope_of(uint32_t layer) const;
  // The rotation of the layers that see all rows, or of heads_layer() where none does: that of keys
  // which a policy chooses among.
  const Rope& rope_of_full() const;
  // The first layer that attends, or the first one where none does: whose heads are the model's.
  const LayerConfig& heads_layer() const;
  bool keeps_states() const;  // some layers do
  // Whether all layers keep rows of their own, of one shape, with keys as wide as values, and ask
  // with as many heads.
  bool layers_alike() const;
  // Whether all layers have the same window, or none.
  bool windows_alike() const;
};

// Reads `<arch>.*` keys as the architecture's row of families/ has them; of one that is not there,
// the sizes alone. Numbers of layers may be arrays of one per layer. Errors name the key and the
// value; every number is bounded so that no later product overflows.
base::Result<Config> read_config(const io::ModelFile& file);

}  // namespace kvick::model
