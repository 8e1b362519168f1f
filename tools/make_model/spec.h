#pragma once
// The description of a model to make, and the list of its tensors under both of their names.
// Larger than 150 lines because it lists what any family may have.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "kernels/formats/dtype.h"

namespace kvick::tools {

enum class Arch { kLlama, kQwen2, kQwen3, kOpt, kBct };
enum class Scaling { kNone, kLinear, kLlama3, kYarn };
enum class VocabularyKind { kByteLevel, kSentencePiece };

// The parameters of Hugging Face's rope_type llama3 that are the same in every published model.
inline constexpr double kLowFrequencyFactor = 1, kHighFrequencyFactor = 4;

// A key and its value in a GGUF file's metadata. The key lacks the architecture's prefix.
struct Key {
  std::string name;
  std::variant<uint32_t, float, bool, std::string> value;
};

// Differences between layers, and features of families beyond those of Arch.
struct Features {
  std::string family;  // general.architecture; empty: that of arch
  // One number per layer; empty: that of the spec for all layers.
  std::vector<uint32_t> heads, kv_heads, ffn;
  // All but the last of each `window_period` layers see only `window` tokens. Without a period all
  // layers do; without a window none does.
  uint32_t window = 0, window_period = 0;
  uint32_t window_head_dim = 0;  // head dimension of layers with a window; 0: head_dim
  float window_rope_base = 0;    // of layers with a window; 0: rope_base
  uint32_t shared_layers = 0;    // number of last layers, which read other layers' rows
  float softcap = 0, logit_softcap = 0;
  bool head_norms = false, post_norms = false, sinks = false;
  bool all_head_norms = false;                     // one norm for all heads of a token
  bool no_pre_norms = false, layer_norms = false;  // LayerNorm, with biases
  bool scaled_embedding = false;  // looked-up rows are multiplied by the root of dim
  bool fused_qkv = false, fused_gate_up = false;  // one tensor for q, k and v; for gate and up
  bool qkv_bias = false, out_bias = false, ffn_bias = false;
  bool ungated = false;                   // the feed-forward block has no gate
  bool ffn_norm_after_attention = false;  // its norm is named post_attention_norm (gpt-oss)
  bool bare_ffn_norm = false;             // its norm is named ffn_norm, without .weight (Falcon-H1)
  // Every `expert_period`th layer has experts; 0: no layer has.
  uint32_t expert_period = 0, experts = 0, experts_used = 0, expert_ffn = 0, shared_ffn = 0;
  bool expert_bias = false, shared_gate = false, selection_bias = false;
  uint32_t dense_layers = 0;  // number of first layers without experts
  // Elements of latent vectors; of the queries' latent vectors (0: none); of a head's part of the
  // key that is not rotated; of a head's value.
  uint32_t latent = 0, q_latent = 0, plain = 0, value_dim = 0;
  bool joined_heads = false;  // one matrix computes the keys and values of all heads
  // Layers without KV heads keep a state: that of a short convolution over `conv_kernel` tokens (0:
  // no layer has one), or, with state_heads, also Mamba-2's matrices, [head_dim][state_size] each.
  uint32_t conv_kernel = 0, state_heads = 0, state_groups = 1, state_head_dim = 0, state_size = 0;
  // Every layer has a state beside attention; a state's output has no norm (Falcon-H1).
  bool state_beside = false, no_state_norm = false;
  bool one_block = false;  // a layer with a feed-forward width is only that block (Nemotron-H)
  bool last_norm_of_embedding = false;  // the last norm is named token_embd_norm (LFM2)
  // All but the last of each `delta_period` layers are gated delta nets with such a state; 0: no
  // layer is.
  uint32_t delta_period = 0;
  bool delta_grouped = false;  // one tensor for queries, keys, values and gates, group by group
  bool delta_mixed = false;    // one tensor for both gates of a head
  bool gated_heads = false;    // the query matrix also computes gates for the heads' outputs
  uint32_t draft_layers = 0;   // number of draft layers after the others
  bool draft_copies = false;   // they equal the first layer, with the token's embedding as input
  bool long_rope = false;      // LongRoPE: two tensors of factors
  // Encoders: norms only after residual sums; a norm of the embedding; learned positions; norms
  // without biases; no norm before the first layer; number of token types.
  bool sum_norms = false, embedding_norm = false, positions = false;
  bool plain_layer_norms = false, no_first_norm = false;
  uint32_t token_types = 0;
  bool rank_inner = false, rank_norm = false;  // tensors of the head that scores pairs
  uint32_t rank_labels = 0, pooled_width = 0;  // its labels; width between two dense layers
  bool alibi = false, second_sum_norms = false, rank_inner_alone = false;
  // For Gemma 3n and 4 (gemma_tensors.cc):
  std::vector<bool> windowed;   // per layer: has a window; replaces window_period
  uint32_t full_pairs = 0;      // leading pairs that rotate in layers without a window; 0: all
  uint32_t layer_inputs = 0;    // floats per layer that each token has of its own
  bool keys_as_values = false;  // layers without a window have no value matrix
  bool unused_rows = false;     // layers that read others' rows still have tensors for their own
  bool output_scales = false, parallel_experts = false;
  uint32_t streams = 0, laurel = 0;  // residual streams; rank of the block beside attention
  std::vector<float> sparsity;       // per layer, of its gates
  std::vector<Key> keys = {};        // further metadata

  uint32_t state_inner() const { return state_heads * state_head_dim; }
  uint32_t conv_channels() const { return state_inner() + 2 * state_groups * state_size; }
  bool has_experts(uint32_t layer) const {
    return expert_period != 0 && layer >= dense_layers && (layer + 1) % expert_period == 0;
  }
  bool has_delta(uint32_t layer) const {
    return delta_period != 0 && (layer + 1) % delta_period != 0;
  }
};

struct Spec {
  Arch arch = Arch::kLlama;
  kernels::DType type = kernels::DType::kF32;
  // Type of matrices whose inputs are not a multiple of type's block (a 576-wide model in a K
  // format).
  kernels::DType odd_type = kernels::DType::kF32;
  bool has_odd_type = false;
  bool more_bits = false;  // llama.cpp's mixture "_M": see with_more_bits in tensors.cc
  uint32_t layers = 2, dim = 256, ffn = 512, heads = 4;
  uint32_t kv_heads = 0;  // 0: half of heads; for opt all
  uint32_t head_dim = 0;  // 0: dim / heads
  uint32_t rotated = 0;   // elements of a head that rotate; 0: all
  uint32_t vocab = 512, context = 512;
  uint32_t unnamed = 0;  // last rows of vocab without a token, as in a padded layer
  uint32_t slots = 0;    // of bct's memory; 0: 64
  bool tied = false;
  Scaling scaling = Scaling::kNone;
  float scaling_factor = 1;  // context divided by the context of training
  float rope_base = 10000;
  VocabularyKind vocabulary = VocabularyKind::kByteLevel;
  uint64_t seed = 1;
  Features features;

  // Returns this spec with the numbers of one layer.
  Spec of_layer(uint32_t layer) const;
  bool has_window(uint32_t layer) const;
  uint32_t original_context() const;  // the context of training, before scaling
  double norm_eps() const {
    const bool qwen = arch == Arch::kQwen2 || arch == Arch::kQwen3 || features.delta_period != 0;
    return qwen ? 1e-6 : 1e-5;
  }
};

std::string_view arch_name(Arch arch);  // as in general.architecture and model_type

// Returns a preset. S: SmolLM2-135M; M: Llama-3.2-1B with a vocabulary of 32000; L7: Llama-2-7B
// with 8 of its layers.
base::Result<Spec> preset(std::string_view name);

// Sets the type of the matrices. Q4_K_M is llama.cpp's mixture of Q4_K and Q6_K, with Q5_0 and Q8_0
// for rows that are not a multiple of 256.
base::Result<Spec> with_type(Spec spec, const std::string& name);
// Returns the type of weights that an option names.
base::Result<kernels::DType> weight_type(const char* option, const std::string& name);

// Fills in head_dim and other defaults. Error: an impossible spec.
base::Result<Spec> checked(Spec spec);

struct TensorInfo {
  std::string name;  // GGUF's name. It also seeds the random numbers, so that both containers hold
                     // the same weights.
  std::string hf_name;          // empty: not part of a Hugging Face folder
  std::vector<uint64_t> shape;  // outermost first
  kernels::DType type = kernels::DType::kF32;
  float mean = 0, sd = 0;
  // If not 0, each head has this many rows in GGUF's order of rotated pairs (2i, 2i+1), where
  // Hugging Face has (i, i + head_rows/2). 0: both have the same order.
  uint32_t head_rows = 0;
  std::vector<float> values = {};  // instead of random numbers
  std::string like = {};  // name of the tensor whose random numbers it copies; empty: its own

  uint64_t inputs() const { return shape.back(); }
  uint64_t rows() const {
    uint64_t rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
    return rows;
  }
};

// Returns all tensors in file order.
std::vector<TensorInfo> tensors_of(const Spec& spec);

// Returns the row of GGUF's tensor that is row `hf_row` of Hugging Face's.
uint64_t gguf_row(const TensorInfo& tensor, uint64_t hf_row);

// Writes row `row` of the tensor in GGUF's order, before rounding to its type.
void fill_row(const Spec& spec, const TensorInfo& tensor, uint64_t row, float* out);

}  // namespace kvick::tools
