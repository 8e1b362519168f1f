#pragma once
// The numbers that define a model, read from the metadata of its file and checked.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/file/model_file.h"

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

// Queries are multiplied by 1 + scale * log(floor((position + offset) / floor) + 1) (Llama 4).
struct QueryTemperature {
  float scale = 0, floor = 1, offset = 0;
  float at(uint32_t position) const;
};

// The numbers of one layer.
struct LayerConfig {
  static constexpr uint32_t kNone = UINT32_MAX;
  // How its tokens see those before them: attention over rows, or over a memory of slots (bct).
  enum class Kind : uint8_t { kAttention, kSlots };

  Kind kind = Kind::kAttention;
  uint32_t heads = 0, kv_heads = 0;
  uint32_t k_dim = 0, v_dim = 0;  // elements of a query or key head, and of a value head
  uint32_t ffn = 0;               // width of the feed-forward block; with experts 0
  ExpertsConfig experts;
  uint32_t window = 0;       // tokens that a query sees, itself included; 0: all
  bool chunked = false;      // the window restarts at multiples of its size (Llama 4)
  uint32_t rope = kNone;     // index into Config::ropes; kNone: no rotary embedding
  float scale = 1;           // of the attention's logits
  float softcap = 0;         // c: logits become c * tanh(logit / c); 0: they stay
  bool sinks = false;        // each head has one logit more, without a value (gpt-oss)
  bool tempered = false;     // queries are scaled by Config::temperature
  uint32_t rows_of = kNone;  // the layer whose keys and values it reads; kNone: its own

  // Attention as most models have it: heads of one size, logits scaled by 1/sqrt(head_dim).
  static LayerConfig attention(uint32_t heads, uint32_t kv_heads, uint32_t head_dim);

  uint32_t group() const { return heads / kv_heads; }
  // Floats of one token's queries, keys, values and attended values.
  uint32_t q_floats() const { return heads * k_dim; }
  uint32_t k_floats() const { return kv_heads * k_dim; }
  uint32_t v_floats() const { return kv_heads * v_dim; }
  uint32_t out_floats() const { return heads * v_dim; }
  bool owns_rows() const { return rows_of == kNone; }
  bool operator==(const LayerConfig&) const = default;
};

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
  float logit_softcap = 0;  // as LayerConfig::softcap, after logit_scale
  QueryTemperature temperature;
  bool head_norms = true;  // false: heads are not normalised though the family does
  std::vector<Rope> ropes;
  std::vector<LayerConfig> layers;

  uint32_t layer_count() const { return static_cast<uint32_t>(layers.size()); }
  uint32_t most_positions() const { return learned_positions ? context : UINT32_MAX; }
  // The rotation of a layer, or one of nothing.
  const Rope& rope_of(uint32_t layer) const;
  // The rotation of the layers that see all rows, or of the first one where none does: that of keys
  // which a policy chooses among.
  const Rope& rope_of_full() const;
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
