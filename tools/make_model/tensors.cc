// The tensors of made models, in the order of their files.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <span>

#include "make_model/spec.h"

namespace kvick::tools {
namespace {

using kernels::DType;

// Weights are drawn so that a unit-variance input gives outputs of this standard deviation. Queries
// a little more, so that attention picks; logits more, so that the distribution is neither flat nor
// a point.
constexpr float kPlain = 1.0f, kQuery = 1.5f, kLogit = 2.5f, kBias = 0.3f, kNorm = 0.1f,
                kFirstValue = 0.5f;

class TensorList {
 public:
  explicit TensorList(const Spec& spec) : spec_(spec) {}

  TensorInfo& matrix(const std::string& name, const std::string& hf, uint64_t rows, uint64_t inputs,
                     float gain) {
    const bool fits = inputs % kernels::dtype_info(spec_.type).block == 0;
    const float sd = gain / std::sqrt(static_cast<float>(inputs));
    list_.push_back({name + ".weight",
                     hf.empty() ? "" : hf + ".weight",
                     {rows, inputs},
                     fits ? spec_.type : spec_.odd_type,
                     0,
                     sd});
    return list_.back();
  }
  // One matrix for each expert.
  void stack(const std::string& name, uint64_t experts, uint64_t rows, uint64_t inputs,
             float gain) {
    matrix(name, "", rows, inputs, gain).shape = {experts, rows, inputs};
  }
  void vector(const std::string& name, const std::string& hf, uint64_t n, float mean, float sd) {
    list_.push_back({name, hf, {n}, DType::kF32, mean, sd});
  }
  void norm(const std::string& name, const std::string& hf, uint64_t n, bool bias, float mean = 1) {
    vector(name + ".weight", hf + ".weight", n, mean, mean * kNorm);
    if (bias) vector(name + ".bias", hf + ".bias", n, 0, kNorm);
  }
  void add(TensorInfo info) { list_.push_back(std::move(info)); }
  std::vector<TensorInfo> take() { return std::move(list_); }

 private:
  const Spec& spec_;
  std::vector<TensorInfo> list_;
};

// The factors that llama3 scaling divides the rotary frequencies by (Hugging Face,
// _compute_llama3_parameters).
std::vector<float> llama3_factors(const Spec& spec) {
  std::vector<float> factors;
  const double original = spec.original_context();
  for (uint32_t i = 0; i < spec.head_dim / 2; ++i) {
    const double wavelength =
        2 * std::numbers::pi *
        std::pow(static_cast<double>(spec.rope_base), 2.0 * i / spec.head_dim);
    const double smooth = std::clamp((original / wavelength - kLowFrequencyFactor) /
                                         (kHighFrequencyFactor - kLowFrequencyFactor),
                                     0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - smooth) / spec.scaling_factor + smooth)));
  }
  return factors;
}

struct Projection {
  const char *name, *hf;
  uint64_t rows;
  float gain;
  bool rotated;
};

// Queries, keys and values: a tensor each, or one.
void add_projections(const Spec& spec, bool owns_rows, const std::string& blk,
                     const std::string& hf, TensorList& list) {
  const uint64_t q_rows = uint64_t{spec.heads} * spec.head_dim;
  const uint64_t kv_rows = uint64_t{spec.kv_heads} * spec.head_dim;
  const bool bias = spec.arch == Arch::kQwen2 || spec.features.qkv_bias;
  if (spec.features.fused_qkv) {
    list.matrix(blk + "attn_qkv", "", q_rows + 2 * kv_rows, spec.dim, kPlain);
    if (bias) list.vector(blk + "attn_qkv.bias", "", q_rows + 2 * kv_rows, 0, kBias);
    return;
  }
  const Projection all[] = {{"attn_q", "self_attn.q_proj", q_rows, kQuery, true},
                            {"attn_k", "self_attn.k_proj", kv_rows, kPlain, true},
                            {"attn_v", "self_attn.v_proj", kv_rows, kPlain, false}};
  const std::span<const Projection> own = std::span(all).first(owns_rows ? 3 : 1);
  for (const Projection& p : own)
    list.matrix(blk + p.name, hf + p.hf, p.rows, spec.dim, p.gain).head_rows =
        spec.arch == Arch::kLlama && p.rotated ? spec.head_dim : 0;
  if (!bias) return;
  for (const Projection& p : own)
    list.vector(blk + p.name + ".bias", hf + p.hf + ".bias", p.rows, 0, kBias);
}

void add_attention(const Spec& spec, bool owns_rows, const std::string& blk, const std::string& hf,
                   TensorList& list) {
  const Features& f = spec.features;
  const uint64_t q_rows = uint64_t{spec.heads} * spec.head_dim;
  const uint64_t kv_rows = uint64_t{spec.kv_heads} * spec.head_dim;
  add_projections(spec, owns_rows, blk, hf, list);
  if (spec.arch == Arch::kQwen3 || f.head_norms || f.all_head_norms) {
    const uint64_t q = f.all_head_norms ? q_rows : spec.head_dim;
    const uint64_t k = f.all_head_norms ? kv_rows : spec.head_dim;
    list.norm(blk + "attn_q_norm", hf + "self_attn.q_norm", q, false);
    if (owns_rows) list.norm(blk + "attn_k_norm", hf + "self_attn.k_norm", k, false);
  }
  if (f.sinks) list.vector(blk + "attn_sinks.weight", "", spec.heads, 0, kPlain);
  list.matrix(blk + "attn_output", hf + "self_attn.o_proj", spec.dim, q_rows, kPlain);
  if (f.out_bias) list.vector(blk + "attn_output.bias", "", spec.dim, 0, kBias);
}

// docs/reference/bct-format.md.
void add_memory_attention(const Spec& spec, const std::string& blk, TensorList& list) {
  const uint64_t q_rows = uint64_t{spec.heads} * spec.head_dim;
  const uint64_t kv_rows = uint64_t{spec.kv_heads} * spec.head_dim;
  const uint64_t slots = uint64_t{spec.kv_heads} * spec.slots;
  const bool floats = kernels::dtype_info(spec.type).block == 1;
  list.matrix(blk + "attn_q", "", q_rows, spec.dim, kQuery);
  list.matrix(blk + "memory_wq", "", kv_rows, spec.dim, kQuery);
  list.matrix(blk + "memory_wv", "", kv_rows, spec.dim, kPlain);
  list.matrix(blk + "memory_step", "", spec.kv_heads, spec.dim, kPlain);
  list.vector(blk + "memory_step.bias", "", spec.kv_heads, 0, kBias);
  list.add({blk + "memory_keys.weight",
            "",
            {slots, spec.head_dim},
            floats ? spec.type : DType::kF32,
            0,
            kPlain});
  list.add({blk + "memory_init.weight", "", {slots, spec.head_dim}, DType::kF32, 0, kFirstValue});
  list.matrix(blk + "attn_output", "", spec.dim, q_rows, kPlain);
}

void add_experts(const Spec& spec, const std::string& blk, TensorList& list) {
  const Features& f = spec.features;
  list.add({blk + "ffn_gate_inp.weight",
            "",
            {f.experts, spec.dim},
            DType::kF32,
            0,
            kQuery / std::sqrt(static_cast<float>(spec.dim))});
  if (f.selection_bias) list.vector(blk + "exp_probs_b.bias", "", f.experts, 0, kBias);
  list.stack(blk + "ffn_gate_exps", f.experts, f.expert_ffn, spec.dim, kPlain);
  list.stack(blk + "ffn_up_exps", f.experts, f.expert_ffn, spec.dim, kPlain);
  list.stack(blk + "ffn_down_exps", f.experts, spec.dim, f.expert_ffn, kPlain);
  if (f.expert_bias) {
    list.vector(blk + "ffn_gate_inp.bias", "", f.experts, 0, kBias);
    for (const auto& [name, rows] :
         {std::pair{"ffn_gate_exps.bias", f.expert_ffn},
          std::pair{"ffn_up_exps.bias", f.expert_ffn}, std::pair{"ffn_down_exps.bias", spec.dim}})
      list.add({blk + name, "", {f.experts, rows}, DType::kF32, 0, kBias});
  }
  if (f.shared_ffn == 0) return;
  list.matrix(blk + "ffn_gate_shexp", "", f.shared_ffn, spec.dim, kPlain);
  list.matrix(blk + "ffn_up_shexp", "", f.shared_ffn, spec.dim, kPlain);
  list.matrix(blk + "ffn_down_shexp", "", spec.dim, f.shared_ffn, kPlain);
  if (f.shared_gate)
    list.vector(blk + "ffn_gate_inp_shexp.weight", "", spec.dim, 0,
                kPlain / std::sqrt(static_cast<float>(spec.dim)));
}

void add_feed_forward(const Spec& spec, const std::string& blk, const std::string& hf,
                      TensorList& list) {
  const Features& f = spec.features;
  if (!f.ungated && !f.fused_gate_up)
    list.matrix(blk + "ffn_gate", hf + "mlp.gate_proj", spec.ffn, spec.dim, kPlain);
  list.matrix(blk + "ffn_up", hf + "mlp.up_proj", (f.fused_gate_up ? 2 : 1) * spec.ffn, spec.dim,
              kPlain);
  list.matrix(blk + "ffn_down", hf + "mlp.down_proj", spec.dim, spec.ffn, kPlain);
  if (!f.ffn_bias) return;
  list.vector(blk + "ffn_up.bias", "", spec.ffn, 0, kBias);
  list.vector(blk + "ffn_down.bias", "", spec.dim, 0, kBias);
}

void add_gated_layer(const Spec& spec, uint32_t layer, TensorList& list) {
  const Features& f = spec.features;
  const std::string blk = fmt::format("blk.{}.", layer);
  const std::string hf = fmt::format("model.layers.{}.", layer);
  if (!f.no_pre_norms)
    list.norm(blk + "attn_norm", hf + "input_layernorm", spec.dim, f.layer_norms);
  if (spec.arch == Arch::kBct)
    add_memory_attention(spec, blk, list);
  else
    add_attention(spec, layer + f.shared_layers < spec.layers, blk, hf, list);
  if (f.post_norms) list.norm(blk + "post_attention_norm", "", spec.dim, false);
  if (!f.no_pre_norms)
    list.norm(blk + (f.ffn_norm_after_attention ? "post_attention_norm" : "ffn_norm"),
              hf + "post_attention_layernorm", spec.dim, f.layer_norms);
  if (f.has_experts(layer))
    add_experts(spec, blk, list);
  else
    add_feed_forward(spec, blk, hf, list);
  if (f.post_norms) list.norm(blk + "post_ffw_norm", "", spec.dim, false);
}

// LongRoPE's factors: they grow with the pair, those for long contexts more.
void add_long_rope(const Spec& spec, TensorList& list) {
  const uint64_t pairs = spec.head_dim / 2;
  for (const auto& [name, growth] : {std::pair{"rope_factors_long.weight", 0.5F},
                                     std::pair{"rope_factors_short.weight", 0.02F}}) {
    std::vector<float> factors;
    for (uint64_t i = 0; i < pairs; ++i) factors.push_back(1 + growth * static_cast<float>(i));
    list.add({name, "", {pairs}, DType::kF32, 0, 0, 0, std::move(factors)});
  }
}

std::vector<TensorInfo> gated_tensors(const Spec& spec) {
  TensorList list(spec);
  // A tied matrix has to serve as the output, so its rows are scaled for that; the first norm makes
  // up for it. Where rows are scaled as they are looked up, the last norm does: a token that
  // outweighs all layers would predict itself.
  const float last_gain =
      spec.features.scaled_embedding ? std::sqrt(static_cast<float>(spec.dim)) : 1;
  list.matrix("token_embd", "model.embed_tokens", spec.vocab, spec.dim, kLogit / last_gain);
  if (spec.scaling == Scaling::kLlama3) {
    const uint64_t pairs = spec.head_dim / 2;
    list.add({"rope_freqs.weight", "", {pairs}, DType::kF32, 0, 0, 0, llama3_factors(spec)});
  }
  if (spec.features.long_rope) add_long_rope(spec, list);
  for (uint32_t i = 0; i < spec.layers; ++i) add_gated_layer(spec.of_layer(i), i, list);
  list.norm("output_norm", "model.norm", spec.dim, spec.features.layer_norms, last_gain);
  if (!spec.tied) list.matrix("output", "lm_head", spec.vocab, spec.dim, kLogit);
  return list.take();
}

void add_opt_layer(const Spec& spec, uint32_t layer, TensorList& list) {
  const std::string blk = fmt::format("blk.{}.", layer);
  const std::string hf = fmt::format("model.decoder.layers.{}.", layer);
  const auto linear = [&](const char* name, const char* hf_name, uint64_t rows, uint64_t inputs,
                          float gain) {
    list.matrix(blk + name, hf + hf_name, rows, inputs, gain);
    list.vector(blk + name + ".bias", hf + hf_name + ".bias", rows, 0, kBias);
  };
  list.norm(blk + "attn_norm", hf + "self_attn_layer_norm", spec.dim, true);
  linear("attn_q", "self_attn.q_proj", spec.dim, spec.dim, kQuery);
  linear("attn_k", "self_attn.k_proj", spec.dim, spec.dim, kPlain);
  linear("attn_v", "self_attn.v_proj", spec.dim, spec.dim, kPlain);
  linear("attn_output", "self_attn.out_proj", spec.dim, spec.dim, kPlain);
  list.norm(blk + "ffn_norm", hf + "final_layer_norm", spec.dim, true);
  linear("ffn_up", "fc1", spec.ffn, spec.dim, kPlain);
  linear("ffn_down", "fc2", spec.dim, spec.ffn, kPlain);
}

std::vector<TensorInfo> opt_tensors(const Spec& spec) {
  constexpr uint64_t kOffset = 2;  // OPT's position p is row p + 2
  TensorList list(spec);
  list.matrix("token_embd", "model.decoder.embed_tokens", spec.vocab, spec.dim, kLogit);
  list.matrix("position_embd", "model.decoder.embed_positions", spec.context + kOffset, spec.dim,
              kLogit);
  for (uint32_t i = 0; i < spec.layers; ++i) add_opt_layer(spec, i, list);
  list.norm("output_norm", "model.decoder.final_layer_norm", spec.dim, true);
  return list.take();
}

// The layers whose attn_v and ffn_down get six bits: the first and last eighth and every third
// between (use_more_bits in llama.cpp's src/llama-quant.cpp).
bool has_more_bits(uint32_t layer, uint32_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

std::vector<TensorInfo> with_more_bits(const Spec& spec, std::vector<TensorInfo> list) {
  std::set<std::string> names = {spec.tied ? "token_embd.weight" : "output.weight"};
  for (uint32_t i = 0; i < spec.layers; ++i)
    if (has_more_bits(i, spec.layers)) {
      names.insert(fmt::format("blk.{}.attn_v.weight", i));
      names.insert(fmt::format("blk.{}.ffn_down.weight", i));
    }
  for (TensorInfo& tensor : list)
    if (names.contains(tensor.name)) {
      const bool fits = tensor.inputs() % kernels::dtype_info(DType::kQ6_K).block == 0;
      tensor.type = fits ? DType::kQ6_K : DType::kQ8_0;
    }
  return list;
}

}  // namespace

std::vector<TensorInfo> tensors_of(const Spec& spec) {
  std::vector<TensorInfo> list = spec.arch == Arch::kOpt ? opt_tensors(spec) : gated_tensors(spec);
  return spec.more_bits ? with_more_bits(spec, std::move(list)) : list;
}

}  // namespace kvick::tools
