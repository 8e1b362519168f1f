#pragma once
// What a model to be made looks like, and the list of its tensors under both of their names.
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

// A pair of a GGUF file's metadata, its key without the architecture in front.
struct Key {
  std::string name;
  std::variant<uint32_t, float, bool, std::string> value;
};

// Where layers differ, and what families beside those of Arch have.
struct Features {
  std::string family;  // general.architecture; empty: arch's
  // One of each layer; empty: those of the spec.
  std::vector<uint32_t> heads, kv_heads, ffn;
  // All but the last of each `window_period` layers see `window` tokens; 0: all layers, and none.
  uint32_t window = 0, window_period = 0;
  uint32_t window_head_dim = 0;  // of those layers; 0: head_dim
  float window_rope_base = 0;    // 0: rope_base
  uint32_t shared_layers = 0;    // the last ones, which read the rows of others
  float softcap = 0, logit_softcap = 0;
  bool head_norms = false, post_norms = false, sinks = false;
  bool all_head_norms = false;                     // one norm for all heads of a token
  bool no_pre_norms = false, layer_norms = false;  // LayerNorm, with biases
  bool scaled_embedding = false;  // looked-up rows are multiplied by the root of dim
  bool fused_qkv = false, fused_gate_up = false;  // one tensor for each
  bool qkv_bias = false, out_bias = false, ffn_bias = false;
  bool ungated = false;                   // up and down alone
  bool ffn_norm_after_attention = false;  // it is called post_attention_norm (gpt-oss)
  bool bare_ffn_norm = false;             // it is called ffn_norm, without .weight (Falcon-H1)
  // Experts of every `expert_period`th layer; 0: no layer has any.
  uint32_t expert_period = 0, experts = 0, experts_used = 0, expert_ffn = 0, shared_ffn = 0;
  bool expert_bias = false, shared_gate = false, selection_bias = false;
  uint32_t dense_layers = 0;  // the first ones, which have no experts
  // Elements of latent vectors, of those of queries (0: none), of heads' unturned keys and values.
  uint32_t latent = 0, q_latent = 0, plain = 0, value_dim = 0;
  bool joined_heads = false;  // one matrix makes the keys and values of all heads
  // Layers without KV heads keep a state, of a convolution over so many tokens (0: no layer does):
  // of short ones alone, or with Mamba-2's matrices, [head_dim][state_size] each.
  uint32_t conv_kernel = 0, state_heads = 0, state_groups = 1, state_head_dim = 0, state_size = 0;
  // Beside attention, in every layer; and without a norm of what it gives (Falcon-H1).
  bool state_beside = false, no_state_norm = false;
  bool one_block = false;  // a layer with a width is a feed-forward block alone (Nemotron-H)
  bool last_norm_of_embedding = false;  // the last norm is called token_embd_norm (LFM2)
  // Those of all but the last of each so many layers instead, and of a gated delta net; 0: of none.
  uint32_t delta_period = 0;
  bool delta_grouped = false;  // one tensor of each group's queries, keys, values and gates
  bool delta_mixed = false;    // one tensor for both gates of a head
  bool gated_heads = false;    // queries come with gates for what heads give
  uint32_t draft_layers = 0;   // that draft, behind the others
  bool draft_copies = false;   // they do what the first layer does, with the token's embedding
  bool long_rope = false;      // two tensors of factors
  // Encoders: norms of sums alone, and one of the embedding; learned positions; rows of token
  // types; norms without biases, and none before the first layer; tensors behind the pooling.
  bool sum_norms = false, embedding_norm = false, positions = false;
  bool plain_layer_norms = false, no_first_norm = false;
  uint32_t token_types = 0;
  bool rank_inner = false, rank_norm = false;  // of the head that scores pairs
  uint32_t rank_labels = 0, pooled_width = 0;  // its labels; of two dense layers
  // Logits that fall with the distance in place of rotation; a second norm behind attention; the
  // head that scores pairs is its inner matrix alone (jina-bert-v2).
  bool alibi = false, second_sum_norms = false, rank_inner_alone = false;
  // Of Gemma 3n and 4 (gemma_tensors.cc):
  std::vector<bool> windowed;   // layers with a window, in place of a period
  uint32_t full_pairs = 0;      // that rotate in layers without one, of a head's first; 0: all
  uint32_t layer_inputs = 0;    // floats of each layer that a token has of its own
  bool keys_as_values = false;  // layers without a window have no matrix of values
  bool unused_rows = false;     // layers that read others' rows have tensors for their own
  bool output_scales = false, parallel_experts = false;
  uint32_t streams = 0, laurel = 0;  // residual streams, and the rank of what is beside attention
  std::vector<float> sparsity;       // of each layer's gates
  std::vector<Key> keys = {};        // what else its metadata says

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
  // For matrices whose inputs are not a multiple of type's block (a 576-wide model in a K format).
  kernels::DType odd_type = kernels::DType::kF32;
  bool has_odd_type = false;
  bool more_bits = false;  // llama.cpp's mixture "_M": see with_more_bits in spec.cc
  uint32_t layers = 2, dim = 256, ffn = 512, heads = 4;
  uint32_t kv_heads = 0;  // 0: half of heads, for opt all
  uint32_t head_dim = 0;  // 0: dim / heads
  uint32_t rotated = 0;   // elements of a head that rotate; 0: all
  uint32_t vocab = 512, context = 512;
  uint32_t unnamed = 0;  // of vocab, the last so many rows have no token: the layer is padded
  uint32_t slots = 0;    // of bct's memory; 0: 64
  bool tied = false;
  Scaling scaling = Scaling::kNone;
  float scaling_factor = 1;  // the context is this many times the one that the model was trained on
  float rope_base = 10000;
  VocabularyKind vocabulary = VocabularyKind::kByteLevel;
  uint64_t seed = 1;
  Features features;

  // This spec with the numbers of one layer.
  Spec of_layer(uint32_t layer) const;
  bool has_window(uint32_t layer) const;
  uint32_t original_context() const;  // before scaling
  double norm_eps() const {
    const bool qwen = arch == Arch::kQwen2 || arch == Arch::kQwen3 || features.delta_period != 0;
    return qwen ? 1e-6 : 1e-5;
  }
};

std::string_view arch_name(Arch arch);  // as general.architecture and model_type say it

// S: SmolLM2-135M; M: Llama-3.2-1B with a vocabulary of 32000; L7: Llama-2-7B with 8 of its layers.
base::Result<Spec> preset(std::string_view name);

// The type of the matrices, or Q4_K_M: llama.cpp's mixture of Q4_K and Q6_K, with Q5_0 and Q8_0
// where rows are no multiple of 256.
base::Result<Spec> with_type(Spec spec, const std::string& name);
// The type of weights that an option names.
base::Result<kernels::DType> weight_type(const char* option, const std::string& name);

// Fills in head_dim and says what cannot be.
base::Result<Spec> checked(Spec spec);

struct TensorInfo {
  std::string name;  // GGUF's; also the key of the random numbers, so that both containers hold the
                     // same weights
  std::string hf_name;          // empty: not in a Hugging Face folder
  std::vector<uint64_t> shape;  // outermost first
  kernels::DType type = kernels::DType::kF32;
  float mean = 0, sd = 0;
  // Rows of this many per head stand in GGUF's order of rotated pairs (2i, 2i+1), where Hugging
  // Face has (i, i + head_rows/2). 0: both have the same order.
  uint32_t head_rows = 0;
  std::vector<float> values = {};  // instead of random numbers
  std::string like = {};           // the tensor whose random numbers it has; empty: its own

  uint64_t inputs() const { return shape.back(); }
  uint64_t rows() const {
    uint64_t rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
    return rows;
  }
};

// All tensors in file order.
std::vector<TensorInfo> tensors_of(const Spec& spec);

// The row of GGUF's tensor that is row `hf_row` of the Hugging Face one.
uint64_t gguf_row(const TensorInfo& tensor, uint64_t hf_row);

// Row `row` of the tensor in GGUF's order, before rounding to its type.
void fill_row(const Spec& spec, const TensorInfo& tensor, uint64_t row, float* out);

}  // namespace kvick::tools
