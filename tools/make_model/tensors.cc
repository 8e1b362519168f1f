// The tensors of made models, in the order of their files.
// Larger than 400 lines because one list has the tensors of all families.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <span>

#include "make_model/tensor_list.h"

namespace kvick::tools {
namespace {

using kernels::DType;

// Returns the factors by which llama3 scaling divides the rotary frequencies (Hugging Face,
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

// Adds the first `projections` of queries, keys and values, as one tensor each, or as one fused
// tensor.
void add_projections(const Spec& spec, uint32_t projections, const std::string& blk,
                     const std::string& hf, TensorList& list) {
  const uint64_t q_rows = uint64_t{spec.heads} * spec.head_dim;
  const uint64_t kv_rows = uint64_t{spec.kv_heads} * spec.head_dim;
  const bool bias = spec.arch == Arch::kQwen2 || spec.features.qkv_bias;
  if (spec.features.fused_qkv) {
    list.matrix(blk + "attn_qkv", "", q_rows + 2 * kv_rows, spec.dim, kPlain);
    if (bias) list.vector(blk + "attn_qkv.bias", "", q_rows + 2 * kv_rows, 0, kBias);
    return;
  }
  const uint64_t gates = spec.features.gated_heads ? q_rows : 0;
  const Projection all[] = {{"attn_q", "self_attn.q_proj", q_rows + gates, kQuery, true},
                            {"attn_k", "self_attn.k_proj", kv_rows, kPlain, true},
                            {"attn_v", "self_attn.v_proj", kv_rows, kPlain, false}};
  const std::span<const Projection> own = std::span(all).first(projections);
  for (const Projection& p : own)
    list.matrix(blk + p.name, hf + p.hf, p.rows, spec.dim, p.gain).head_rows =
        spec.arch == Arch::kLlama && p.rotated ? spec.head_dim : 0;
  if (!bias) return;
  for (const Projection& p : own)
    list.vector(blk + p.name + ".bias", hf + p.hf + ".bias", p.rows, 0, kBias);
}

// Adds the matrices that compute latent rows, and those from latent rows to the heads' queries,
// keys and values.
void add_latent_attention(const Spec& spec, const std::string& blk, TensorList& list) {
  const Features& f = spec.features;
  const uint64_t heads = spec.heads;
  if (f.q_latent != 0) {
    list.matrix(blk + "attn_q_a", "", f.q_latent, spec.dim, kPlain);
    list.norm(blk + "attn_q_a_norm", "", f.q_latent, false);
    list.matrix(blk + "attn_q_b", "", heads * spec.head_dim, f.q_latent, kQuery);
  } else {
    list.matrix(blk + "attn_q", "", heads * spec.head_dim, spec.dim, kQuery);
  }
  list.matrix(blk + "attn_kv_a_mqa", "", f.latent + spec.rotated, spec.dim, kPlain);
  list.norm(blk + "attn_kv_a_norm", "", f.latent, false);
  if (f.joined_heads) {
    list.matrix(blk + "attn_kv_b", "", heads * (f.plain + f.value_dim), f.latent, kPlain);
  } else {
    list.stack(blk + "attn_k_b", heads, f.latent, f.plain, kPlain);
    list.stack(blk + "attn_v_b", heads, f.value_dim, f.latent, kPlain);
  }
  list.matrix(blk + "attn_output", "", spec.dim, heads * f.value_dim, kPlain);
}

// projections: how many of queries, keys and values the layer has.
void add_attention(const Spec& spec, uint32_t projections, const std::string& blk,
                   const std::string& hf, TensorList& list) {
  const Features& f = spec.features;
  const bool owns_rows = projections > 1;
  const uint64_t q_rows = uint64_t{spec.heads} * spec.head_dim;
  const uint64_t kv_rows = uint64_t{spec.kv_heads} * spec.head_dim;
  add_projections(spec, projections, blk, hf, list);
  if (spec.arch == Arch::kQwen3 || f.head_norms || f.all_head_norms) {
    const uint64_t q = f.all_head_norms ? q_rows : spec.head_dim;
    const uint64_t k = f.all_head_norms ? kv_rows : spec.head_dim;
    list.norm(blk + "attn_q_norm", hf + "self_attn.q_norm", q, f.sum_norms);
    if (owns_rows) list.norm(blk + "attn_k_norm", hf + "self_attn.k_norm", k, f.sum_norms);
  }
  if (f.sinks) list.vector(blk + "attn_sinks.weight", "", spec.heads, 0, kPlain);
  list.matrix(blk + "attn_output", hf + "self_attn.o_proj", spec.dim, q_rows, kPlain);
  if (f.out_bias) list.vector(blk + "attn_output.bias", "", spec.dim, 0, kBias);
}

// See docs/reference/bct-format.md.
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
  if (!f.ungated) list.stack(blk + "ffn_gate_exps", f.experts, f.expert_ffn, spec.dim, kPlain);
  list.stack(blk + "ffn_up_exps", f.experts, f.expert_ffn, spec.dim, kPlain);
  list.stack(blk + "ffn_down_exps", f.experts, spec.dim, f.expert_ffn, kPlain);
  if (f.expert_bias && f.ungated) {  // one for the sum, as in nomic-embed's folders
    list.vector(blk + "ffn_exps.bias", "", spec.dim, 0, kBias);
  } else if (f.expert_bias) {
    list.vector(blk + "ffn_gate_inp.bias", "", f.experts, 0, kBias);
    for (const auto& [name, rows] :
         {std::pair{"ffn_gate_exps.bias", f.expert_ffn},
          std::pair{"ffn_up_exps.bias", f.expert_ffn}, std::pair{"ffn_down_exps.bias", spec.dim}})
      list.add({blk + name, "", {f.experts, rows}, DType::kF32, 0, kBias});
  }
  if (f.shared_ffn == 0) return;
  if (!f.ungated) list.matrix(blk + "ffn_gate_shexp", "", f.shared_ffn, spec.dim, kPlain);
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
  const uint64_t up_rows = uint64_t{f.fused_gate_up ? 2U : 1U} * spec.ffn;
  list.matrix(blk + "ffn_up", hf + "mlp.up_proj", up_rows, spec.dim, kPlain);
  list.matrix(blk + "ffn_down", hf + "mlp.down_proj", spec.dim, spec.ffn, kPlain);
  if (!f.ffn_bias) return;
  list.vector(blk + "ffn_up.bias", "", up_rows, 0, kBias);
  list.vector(blk + "ffn_down.bias", "", spec.dim, 0, kBias);
}

// Adds a convolution's taps and its bias.
void add_conv(const std::string& name, uint64_t channels, uint64_t kernel, bool bias,
              TensorList& list) {
  list.add({name + ".weight",
            "",
            {channels, kernel},
            DType::kF32,
            0,
            kPlain / std::sqrt(static_cast<float>(kernel))});
  if (bias) list.vector(name + ".bias", "", channels, 0, kBias);
}

// Adds a short convolution with its two gates, or Mamba-2.
void add_state(const Spec& spec, const std::string& blk, TensorList& list) {
  const Features& f = spec.features;
  if (f.state_heads == 0) {
    list.matrix(blk + "shortconv.in_proj", "", uint64_t{3} * spec.dim, spec.dim, kQuery);
    add_conv(blk + "shortconv.conv", spec.dim, f.conv_kernel, false, list);
    list.matrix(blk + "shortconv.out_proj", "", spec.dim, spec.dim, kPlain);
    return;
  }
  const uint64_t inner = f.state_inner(), heads = f.state_heads;
  list.matrix(blk + "ssm_in", "", inner + f.conv_channels() + heads, spec.dim, kPlain);
  add_conv(blk + "ssm_conv1d", f.conv_channels(), f.conv_kernel, true, list);
  list.vector(blk + "ssm_dt.bias", "", heads, -kPlain, kBias);
  // With these numbers the median head keeps about three quarters of its state per token.
  list.add({blk + "ssm_a", "", {heads, 1}, DType::kF32, -kPlain, kBias});
  list.add({blk + "ssm_d", "", {heads, 1}, DType::kF32, kPlain, kBias});
  if (!f.no_state_norm && f.state_groups == 1)  // as llama-quantize writes it
    list.add({blk + "ssm_norm.weight", "", {inner}, DType::kF32, kPlain, kNorm});
  else if (!f.no_state_norm)
    list.add({blk + "ssm_norm.weight",
              "",
              {f.state_groups, inner / f.state_groups},
              DType::kF32,
              kPlain,
              kNorm});
  list.matrix(blk + "ssm_out", "", spec.dim, inner, kPlain);
}

// Adds a gated delta net.
void add_delta(const Spec& spec, const std::string& blk, TensorList& list) {
  const Features& f = spec.features;
  constexpr float kRate = -0.3F;  // keeps about 0.8 per token, so that states last for some tokens
  const uint64_t heads = f.state_heads;
  if (f.delta_grouped) {
    list.matrix(blk + "ssm_in", "", f.conv_channels() + f.state_inner(), spec.dim, kPlain);
  } else {
    list.matrix(blk + "attn_qkv", "", f.conv_channels(), spec.dim, kPlain);
    list.matrix(blk + "attn_gate", "", f.state_inner(), spec.dim, kPlain);
  }
  if (f.delta_mixed) {
    list.matrix(blk + "ssm_ba", "", 2 * heads, spec.dim, kPlain);
  } else {
    list.matrix(blk + "ssm_beta", "", heads, spec.dim, kPlain);
    list.matrix(blk + "ssm_alpha", "", heads, spec.dim, kPlain);
  }
  add_conv(blk + "ssm_conv1d", f.conv_channels(), f.conv_kernel, false, list);
  list.vector(blk + "ssm_dt.bias", "", heads, 0, kBias);
  list.vector(blk + "ssm_a", "", heads, kRate, -kRate * kNorm);
  list.norm(blk + "ssm_norm", "", f.state_head_dim, false);
  list.matrix(blk + "ssm_out", "", spec.dim, f.state_inner(), kPlain);
}

// Adds the tensors that only draft layers have.
void add_draft(const Spec& spec, const std::string& blk, TensorList& list) {
  const uint64_t dim = spec.dim;
  for (const char* name : {"nextn.hnorm", "nextn.shared_head_norm"})
    list.norm(blk + name, "", dim, false);
  if (!spec.features.draft_copies) {
    list.norm(blk + "nextn.enorm", "", dim, false);
    list.matrix(blk + "nextn.eh_proj", "", dim, 2 * dim, kPlain);
    return;
  }
  // Elements of embeddings have about this root mean square, so the norm leaves embeddings
  // unchanged.
  const float length = kLogit / std::sqrt(static_cast<float>(dim));
  list.add({blk + "nextn.enorm.weight", "", {dim}, DType::kF32, length, 0});
  std::vector<float> first(2 * dim * dim);
  for (uint64_t i = 0; i < dim; ++i) first[i * 2 * dim + i] = 1;
  list.add(
      {blk + "nextn.eh_proj.weight", "", {dim, 2 * dim}, DType::kF32, 0, 0, 0, std::move(first)});
}

// With draft_copies, gives the draft layer's tensors the values of the first layer, and its norm
// those of the last norm.
std::vector<TensorInfo> with_copies(const Spec& spec, std::vector<TensorInfo> list) {
  if (!spec.features.draft_copies) return list;
  const std::string blk = fmt::format("blk.{}.", spec.layers);
  for (TensorInfo& tensor : list) {
    if (!tensor.name.starts_with(blk)) continue;
    const std::string name = tensor.name.substr(blk.size());
    tensor.like = name == "nextn.shared_head_norm.weight" ? "output_norm.weight" : "blk.0." + name;
  }
  return list;
}

// Adds the first part of a layer: attention or its substitute; nothing if the layer is only a
// feed-forward block.
void add_mixer(const Spec& spec, uint32_t layer, TensorList& list) {
  const Features& f = spec.features;
  const std::string blk = fmt::format("blk.{}.", layer);
  if (spec.arch == Arch::kBct) return add_memory_attention(spec, blk, list);
  if (f.one_block && spec.ffn > 0) return;
  if (layer < spec.layers && f.has_delta(layer)) return add_delta(spec, blk, list);
  if (f.conv_kernel != 0 && spec.kv_heads == 0) return add_state(spec, blk, list);
  if (f.state_beside) add_state(spec, blk, list);
  if (f.latent != 0) return add_latent_attention(spec, blk, list);
  const bool owns_rows =
      f.unused_rows || layer >= spec.layers || layer + f.shared_layers < spec.layers;
  const bool values = !f.keys_as_values || spec.has_window(layer);
  add_attention(spec,
                !owns_rows ? 1
                : values   ? 3
                           : 2,
                blk, fmt::format("model.layers.{}.", layer), list);
}

void add_gated_layer(const Spec& spec, uint32_t layer, TensorList& list) {
  const Features& f = spec.features;
  const std::string blk = fmt::format("blk.{}.", layer);
  const std::string hf = fmt::format("model.layers.{}.", layer);
  if (!f.no_pre_norms && !(f.no_first_norm && layer == 0))
    list.norm(blk + "attn_norm", hf + "input_layernorm", spec.dim, f.layer_norms);
  add_mixer(spec, layer, list);
  if (spec.ffn == 0) return;
  if (f.post_norms) list.norm(blk + "post_attention_norm", "", spec.dim, false);
  if (f.sum_norms) list.norm(blk + "attn_output_norm", "", spec.dim, true);
  if (f.second_sum_norms) list.norm(blk + "attn_norm_2", "", spec.dim, true);
  if (f.bare_ffn_norm)
    list.vector(blk + "ffn_norm", "", spec.dim, 1, kNorm);
  else if (!f.no_pre_norms && !f.one_block)
    list.norm(blk + (f.ffn_norm_after_attention ? "post_attention_norm" : "ffn_norm"),
              hf + "post_attention_layernorm", spec.dim, f.layer_norms);
  if (f.has_experts(layer) && f.parallel_experts)
    add_parallel_experts(spec, blk, list);
  else if (f.has_experts(layer))
    add_experts(spec, blk, list);
  else
    add_feed_forward(spec, blk, hf, list);
  if (f.post_norms) list.norm(blk + "post_ffw_norm", "", spec.dim, false);
  if (f.sum_norms) list.norm(blk + "layer_output_norm", "", spec.dim, true);
  add_gemma_layer(spec, blk, list);
}

// Adds LongRoPE's factors. They grow with the pair, and those for long contexts grow faster.
void add_long_rope(const Spec& spec, TensorList& list) {
  const uint64_t pairs = spec.head_dim / 2;
  for (const auto& [name, growth] : {std::pair{"rope_factors_long.weight", 0.5F},
                                     std::pair{"rope_factors_short.weight", 0.02F}}) {
    std::vector<float> factors;
    for (uint64_t i = 0; i < pairs; ++i) factors.push_back(1 + growth * static_cast<float>(i));
    list.add({name, "", {pairs}, DType::kF32, 0, 0, 0, std::move(factors)});
  }
}

// Adds what an encoder adds to its embedding, and the layers after its pooling.
void add_encoder_parts(const Spec& spec, TensorList& list) {
  const Features& f = spec.features;
  // Float32 in every file: llama.cpp adds these tensors to rows, which it supports for no other
  // type.
  if (f.positions)
    list.matrix("position_embd", "", spec.context, spec.dim, kLogit).type = DType::kF32;
  if (f.token_types > 0)
    list.matrix("token_types", "", f.token_types, spec.dim, kLogit).type = DType::kF32;
  if (f.embedding_norm) list.norm("token_embd_norm", "", spec.dim, !f.plain_layer_norms);
  if (f.pooled_width > 0) {
    list.matrix("dense_2", "", f.pooled_width, spec.dim, kPlain);
    list.matrix("dense_3", "", spec.dim, f.pooled_width, kPlain);
  }
  const uint64_t inner = f.rank_inner_alone ? f.rank_labels : spec.dim;
  if (f.rank_inner) {
    list.matrix("cls", "", inner, spec.dim, kPlain);
    if (!f.rank_norm) list.vector("cls.bias", "", inner, 0, kBias);
  }
  if (f.rank_norm) list.norm("cls.norm", "", spec.dim, false);
  if (f.rank_labels > 0 && !f.rank_inner_alone) {
    list.matrix("cls.output", "", f.rank_labels, spec.dim, kPlain);
    if (f.rank_inner) list.vector("cls.output.bias", "", f.rank_labels, 0, kBias);
  }
}

std::vector<TensorInfo> gated_tensors(const Spec& spec) {
  TensorList list(spec);
  // A tied matrix is also the output matrix, so its rows are scaled for logits, and the first norm
  // compensates. If looked-up rows are scaled (scaled_embedding), the last norm compensates
  // instead: an embedding that outweighs all layers would make each token predict itself.
  const float last_gain =
      spec.features.scaled_embedding ? std::sqrt(static_cast<float>(spec.dim)) : 1;
  list.matrix("token_embd", "model.embed_tokens", spec.vocab, spec.dim, kLogit / last_gain);
  if (spec.scaling == Scaling::kLlama3) {
    const uint64_t pairs = spec.head_dim / 2;
    list.add({"rope_freqs.weight", "", {pairs}, DType::kF32, 0, 0, 0, llama3_factors(spec)});
  }
  if (spec.features.long_rope) add_long_rope(spec, list);
  add_gemma_tables(spec, list);
  for (uint32_t i = 0; i < spec.layers; ++i) add_gated_layer(spec.of_layer(i), i, list);
  for (uint32_t i = spec.layers; i < spec.layers + spec.features.draft_layers; ++i) {
    add_gated_layer(spec, i, list);
    add_draft(spec, fmt::format("blk.{}.", i), list);
  }
  if (!spec.features.sum_norms)
    list.norm(spec.features.last_norm_of_embedding ? "token_embd_norm" : "output_norm",
              "model.norm", spec.dim, spec.features.layer_norms, last_gain);
  add_encoder_parts(spec, list);
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
  constexpr uint64_t kOffset = 2;  // OPT's position p is in row p + 2
  TensorList list(spec);
  list.matrix("token_embd", "model.decoder.embed_tokens", spec.vocab, spec.dim, kLogit);
  list.matrix("position_embd", "model.decoder.embed_positions", spec.context + kOffset, spec.dim,
              kLogit);
  for (uint32_t i = 0; i < spec.layers; ++i) add_opt_layer(spec, i, list);
  list.norm("output_norm", "model.decoder.final_layer_norm", spec.dim, true);
  return list.take();
}

// Returns whether a layer's attn_v and ffn_down get six bits: the first and the last eighth of
// layers, and every third between (use_more_bits in llama.cpp's src/llama-quant.cpp).
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
  list = with_copies(spec, std::move(list));
  return spec.more_bits ? with_more_bits(spec, std::move(list)) : list;
}

}  // namespace kvick::tools
