// Larger than 400 lines because it is one table: a row per family, and the names of its modules.

#include "io/huggingface/hf_families.h"

#include <array>
#include <cmath>
#include <vector>

namespace kvick::io {
namespace {

using base::Status;

constexpr Rename kHeadNorms[] = {
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
};
// Gemma has norms before and after each block.
constexpr Rename kGemma[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
};
// A parameter that is not a module's has its whole name here.
constexpr Rename kGemma3n[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"per_layer_input_gate", "inp_gate"},
    {"per_layer_projection", "proj"},
    {"post_per_layer_input_norm", "post_norm"},
    {"laurel.linear_left", "laurel_l"},
    {"laurel.linear_right", "laurel_r"},
    {"laurel.post_laurel_norm", "laurel_post_norm"},
    {"altup.correction_coefs", "altup_correct_coef"},
    {"altup.prediction_coefs", "altup_predict_coef"},
    {"altup.modality_router", "altup_router"},
    {"altup.router_norm", "altup_router_norm"},
    {"altup.correct_output_scale", "altup_correct_scale.weight"},
};
constexpr Rename kGemma4[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"layer_scalar", "layer_output_scale.weight"},
    {"per_layer_input_gate", "inp_gate"},
    {"per_layer_projection", "proj"},
    {"post_per_layer_input_norm", "post_norm"},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
    {"router.proj", "ffn_gate_inp"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"experts.down_proj", "ffn_down_exps.weight"},
};
constexpr Rename kOlmo[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
};
constexpr Rename kGlm4[] = {
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
    {"mlp.gate_up_proj", "ffn_up"},
};
constexpr Rename kPhi3[] = {
    {"self_attn.qkv_proj", "attn_qkv"},
    {"mlp.gate_up_proj", "ffn_up"},
};
constexpr Rename kSeedOss[] = {
    {"post_attention_layernorm", "post_attention_norm"},
};
constexpr Rename kHunyuan[] = {
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
};
constexpr Rename kHunyuanMoe[] = {
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    {"mlp.gate.wg", "ffn_gate_inp"},
    {"mlp.experts.*.gate_proj", "ffn_gate"},
    {"mlp.experts.*.up_proj", "ffn_up"},
    {"mlp.experts.*.down_proj", "ffn_down"},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
};
constexpr Rename kGlm[] = {
    {"mlp.gate_up_proj", "ffn_up"},
};
constexpr Rename kErnieMoe[] = {
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.experts.*.gate_proj", "ffn_gate"},
    {"mlp.experts.*.up_proj", "ffn_up"},
    {"mlp.experts.*.down_proj", "ffn_down"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
};
// The experts' matrices of one layer are one tensor, which join_tensors splits.
constexpr Rename kQwenVlMoe[] = {
    {"self_attn.q_norm", "attn_q_norm"},    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate", "ffn_gate_inp"},           {"mlp.experts.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"}, {"mlp.experts.down_proj", "ffn_down_exps"},
};
constexpr Rename kQwenMoe[] = {
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.experts.*.gate_proj", "ffn_gate"},
    {"mlp.experts.*.up_proj", "ffn_up"},
    {"mlp.experts.*.down_proj", "ffn_down"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
};
constexpr Rename kDelta[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"linear_attn.in_proj_qkvz", "ssm_in"},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.in_proj_qkv", "attn_qkv"},
    {"linear_attn.in_proj_z", "attn_gate"},
    {"linear_attn.in_proj_b", "ssm_beta"},
    {"linear_attn.in_proj_a", "ssm_alpha"},
    {"linear_attn.conv1d", "ssm_conv1d"},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.A_log", "ssm_a_log"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"mlp.experts.*.gate_proj", "ffn_gate"},
    {"mlp.experts.*.up_proj", "ffn_up"},
    {"mlp.experts.*.down_proj", "ffn_down"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
};
constexpr Rename kGraniteHybrid[] = {
    {"mamba.in_proj", "ssm_in"},
    {"mamba.conv1d", "ssm_conv1d"},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.A_log", "ssm_a_log"},
    {"mamba.D", "ssm_d"},
    {"mamba.norm", "ssm_norm"},
    {"mamba.out_proj", "ssm_out"},
    {"shared_mlp.input_linear", "ffn_up"},
    {"shared_mlp.output_linear", "ffn_down"},
};
// The shared expert has the names of the dense models' block.
constexpr Rename kGraniteHybridMoe[] = {
    {"mamba.in_proj", "ssm_in"},
    {"mamba.conv1d", "ssm_conv1d"},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.A_log", "ssm_a_log"},
    {"mamba.D", "ssm_d"},
    {"mamba.norm", "ssm_norm"},
    {"mamba.out_proj", "ssm_out"},
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},
    {"block_sparse_moe.output_linear", "ffn_down_exps"},
    {"shared_mlp.input_linear", "ffn_gate_up_shexp"},
    {"shared_mlp.output_linear", "ffn_down_shexp"},
};
// Nemotron-H, whose layers are one block each, and Mamba-2.
constexpr Rename kMixers[] = {
    {"norm", "attn_norm"},
    {"mixer.in_proj", "ssm_in"},
    {"mixer.conv1d", "ssm_conv1d"},
    {"mixer.dt_bias", "ssm_dt.bias"},
    {"mixer.A_log", "ssm_a_log"},
    {"mixer.D", "ssm_d"},
    {"mixer.norm", "ssm_norm"},
    {"mixer.out_proj", "ssm_out"},
    {"mixer.q_proj", "attn_q"},
    {"mixer.k_proj", "attn_k"},
    {"mixer.v_proj", "attn_v"},
    {"mixer.o_proj", "attn_output"},
    {"mixer.up_proj", "ffn_up"},
    {"mixer.down_proj", "ffn_down"},
    {"mixer.gate", "ffn_gate_inp"},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mixer.experts.*.up_proj", "ffn_up"},
    {"mixer.experts.*.down_proj", "ffn_down"},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
};
constexpr Rename kLfm2[] = {
    {"operator_norm", "attn_norm"},
    {"ffn_norm", "ffn_norm"},
    {"conv.in_proj", "shortconv.in_proj"},
    {"conv.conv", "shortconv.conv"},
    {"conv.out_proj", "shortconv.out_proj"},
    {"self_attn.q_layernorm", "attn_q_norm"},
    {"self_attn.k_layernorm", "attn_k_norm"},
    {"self_attn.out_proj", "attn_output"},
    {"feed_forward.w1", "ffn_gate"},
    {"feed_forward.w2", "ffn_down"},
    {"feed_forward.w3", "ffn_up"},
    {"feed_forward.gate", "ffn_gate_inp"},
    {"feed_forward.expert_bias", "exp_probs_b.bias"},
    {"feed_forward.experts.*.w1", "ffn_gate"},
    {"feed_forward.experts.*.w2", "ffn_down"},
    {"feed_forward.experts.*.w3", "ffn_up"},
};
constexpr Rename kMixtral[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate"},
    {"block_sparse_moe.experts.*.w2", "ffn_down"},
    {"block_sparse_moe.experts.*.w3", "ffn_up"},
};
// Experts have the names that join_tensors gives them.
constexpr Rename kGptOss[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.experts.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
};
constexpr Rename kLlama4[] = {
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {"feed_forward.router", "ffn_gate_inp"},
    {"feed_forward.experts.gate_proj", "ffn_gate_exps"},
    {"feed_forward.experts.up_proj", "ffn_up_exps"},
    {"feed_forward.experts.down_proj", "ffn_down_exps"},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"},
};
constexpr Rename kGraniteMoe[] = {
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},
    {"block_sparse_moe.output_linear", "ffn_down_exps"},
};
constexpr Rename kDeepseek[] = {
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.experts.*.gate_proj", "ffn_gate"},
    {"mlp.experts.*.up_proj", "ffn_up"},
    {"mlp.experts.*.down_proj", "ffn_down"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
};
// All but the first are dots1's too.
constexpr Rename kGlm4Moe[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.experts.*.gate_proj", "ffn_gate"},
    {"mlp.experts.*.up_proj", "ffn_up"},
    {"mlp.experts.*.down_proj", "ffn_down"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
};
constexpr Rename kMinimax[] = {
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate"},
    {"block_sparse_moe.experts.*.w2", "ffn_down"},
    {"block_sparse_moe.experts.*.w3", "ffn_up"},
};
constexpr Rename kStarcoder[] = {
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
};

Status<> copy_positive(Mapper& map, std::string_view field, std::string_view key) {
  if (!map.config().find(field)) return base::Done{};
  KVICK_TRY(const double value, positive(map.config(), field));
  map.set(key, value);
  return base::Done{};
}

// Scores are divided by the square root of this number instead of the head dimension.
Status<> map_query_scalar(Mapper& map) {
  if (!map.config().find("query_pre_attn_scalar")) return base::Done{};
  KVICK_TRY(const double scalar, positive(map.config(), "query_pre_attn_scalar"));
  map.set("attention.scale", 1 / std::sqrt(scalar));
  return base::Done{};
}

Status<> map_gemma2(Mapper& map) {
  KVICK_TRY_VOID(map_softcap(map, "attn_logit_softcapping"));
  KVICK_TRY_VOID(map_softcap(map, "final_logit_softcapping"));
  return map_query_scalar(map);
}

Status<> map_gemma3(Mapper& map) {
  KVICK_TRY_VOID(copy_positive(map, "rope_local_base_freq", "rope.freq_base_swa"));
  KVICK_TRY_VOID(copy_positive(map, "final_logit_softcapping", "final_logit_softcapping"));
  return map_query_scalar(map);
}

// Absent and null both mean no window here, but GGUF files without the key may have one.
Status<> map_phi3(Mapper& map) {
  if (!map.config().find("sliding_window")) map.set("attention.sliding_window", uint64_t{0});
  return base::Done{};
}

Status<> map_granite(Mapper& map) {
  KVICK_TRY_VOID(copy_positive(map, "embedding_multiplier", "embedding_scale"));
  KVICK_TRY_VOID(copy_positive(map, "residual_multiplier", "residual_scale"));
  KVICK_TRY_VOID(copy_positive(map, "logits_scaling", "logit_scale"));
  return copy_positive(map, "attention_multiplier", "attention.scale");
}

Status<> map_experts(Mapper& map) {
  const bool local = map.config().find("num_local_experts").has_value();
  KVICK_TRY_VOID(map.copy_size(local ? "num_local_experts" : "num_experts", "expert_count"));
  for (const auto& [field, key] :
       {std::pair{"moe_intermediate_size", "expert_feed_forward_length"},
        std::pair{"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}}) {
    if (map.config().find(field)) KVICK_TRY_VOID(map.copy_size(field, key));
  }
  return map.copy_size("num_experts_per_tok", "expert_used_count");
}
// The tensors show which layers have experts.
Status<> map_qwen_moe(Mapper& map) {
  KVICK_TRY_VOID(map_experts(map));
  KVICK_TRY(const bool normalised, map.config().get_bool("norm_topk_prob", false));
  map.set("expert_weights_norm", normalised);
  return base::Done{};
}

Status<> map_olmoe(Mapper& map) {
  if (map.config().find("clip_qkv"))
    return base::fail("{} limits queries, keys and values, which kvick does not support",
                      map.config().label("clip_qkv"));
  return map_qwen_moe(map);
}

Status<> map_ernie_moe(Mapper& map) {
  KVICK_TRY_VOID(map.copy_size("moe_num_experts", "expert_count"));
  KVICK_TRY_VOID(map.copy_size("moe_k", "expert_used_count"));
  KVICK_TRY_VOID(map.copy_size("moe_intermediate_size", "expert_feed_forward_length"));
  // kvick finds these in the tensors, llama.cpp does not.
  KVICK_TRY(const uint64_t width, map.size("moe_intermediate_size"));
  KVICK_TRY(const uint64_t shared, map.config().get_uint("moe_num_shared_experts", 2));
  KVICK_TRY(const uint64_t dense, map.config().get_uint("moe_layer_start_index", 1));
  KVICK_TRY(const uint64_t step, map.size("moe_layer_interval", 1));
  if (shared > kMaxSize)
    return base::fail("{} is {}; 0 to {} are allowed", map.config().label("moe_num_shared_experts"),
                      shared, kMaxSize);
  map.set("expert_shared_count", shared);
  map.set("expert_shared_feed_forward_length", shared * width);
  map.set("leading_dense_block_count", dense);
  map.set("interleave_moe_layer_step", step);
  return base::Done{};
}

// The first folders have the number of rotated elements, not their share.
Status<> map_minimax(Mapper& map) {
  constexpr uint64_t kSigmoid = 2;  // GGUF's number of the gating function
  KVICK_TRY_VOID(map.require_name("scoring_func", "sigmoid"));
  KVICK_TRY_VOID(map.require_flag("use_qk_norm", true));
  map.set("expert_gating_func", kSigmoid);
  if (map.config().find("rotary_dim"))
    KVICK_TRY_VOID(map.copy_size("rotary_dim", "rope.dimension_count"));
  KVICK_TRY_VOID(map.copy_size("intermediate_size", "expert_feed_forward_length"));
  return map_experts(map);
}

// llama.cpp asks for the sections that the positions of pictures have. A text has one position in
// all of them.
Status<> map_sections(Mapper& map) {
  constexpr size_t kSections = 4;
  for (const std::string_view field : {"rope_scaling", "rope_parameters"}) {
    if (!map.config().find(field)) continue;
    KVICK_TRY(const JsonObject rope, map.config().get_object(field));
    if (!rope.find("mrope_section")) continue;
    KVICK_TRY(const simdjson::dom::array list, rope.get_array("mrope_section"));
    std::vector<uint64_t> sections;
    for (const Json entry : list)
      if (entry.get(sections.emplace_back()) != simdjson::SUCCESS || sections.size() > kSections)
        return base::fail("{} must hold up to {} numbers", rope.label("mrope_section"), kSections);
    sections.resize(kSections);
    map.set("rope.dimension_sections", std::move(sections));
  }
  return base::Done{};
}
Status<> map_qwen_vl_moe(Mapper& map) {
  KVICK_TRY_VOID(map_sections(map));
  return map_qwen_moe(map);
}

// Maps which layers have a gated delta net.
Status<> map_delta_layers(Mapper& map) {
  const JsonObject& config = map.config();
  if (!config.find("layer_types")) {
    KVICK_TRY(const uint64_t period, map.size("full_attention_interval", 4));
    map.set("full_attention_interval", period);
    return base::Done{};
  }
  KVICK_TRY(const simdjson::dom::array types, config.get_array("layer_types"));
  std::vector<bool> kept;
  for (const Json type : types) {
    std::string_view name;
    if (type.get(name) != simdjson::SUCCESS ||
        (name != "full_attention" && name != "linear_attention"))
      return base::fail("{} must hold 'full_attention' or 'linear_attention'",
                        config.label("layer_types"));
    kept.push_back(name == "linear_attention");
  }
  map.set("attention.recurrent_layers", std::move(kept));
  return base::Done{};
}

Status<> map_delta(Mapper& map) {
  KVICK_TRY_VOID(map_delta_layers(map));
  KVICK_TRY_VOID(map.copy_size("linear_conv_kernel_dim", "ssm.conv_kernel"));
  KVICK_TRY_VOID(map.copy_size("linear_key_head_dim", "ssm.state_size"));
  KVICK_TRY_VOID(map.copy_size("linear_num_key_heads", "ssm.group_count"));
  KVICK_TRY(const uint64_t heads, map.size("linear_num_value_heads"));
  KVICK_TRY(const uint64_t values, map.size("linear_value_head_dim"));
  map.set("ssm.time_step_rank", heads);
  map.set("ssm.inner_size", heads * values);
  map.set_whole("kvick.ssm.tiled", false);
  return base::Done{};
}

// If the file does not say so, the weights of the chosen experts still have the sum 1.
Status<> map_delta_moe(Mapper& map) {
  KVICK_TRY_VOID(map_delta(map));
  KVICK_TRY_VOID(map.require_flag("norm_topk_prob", true));
  return map_experts(map);
}

Status<> map_granite_hybrid(Mapper& map) {
  KVICK_TRY_VOID(map_granite(map));
  return map_mamba_layers(map);
}

Status<> map_granite_moe(Mapper& map) {
  KVICK_TRY_VOID(map_granite(map));
  return map_experts(map);
}

Status<> require_number(const Mapper& map, std::string_view field, double wanted) {
  KVICK_TRY(const double value, map.config().get_float(field, wanted));
  if (value == wanted) return base::Done{};
  return base::fail("{} is {}; kvick knows {}", map.config().label(field), value, wanted);
}
Status<> map_gpt_oss(Mapper& map) {
  KVICK_TRY_VOID(require_number(map, "swiglu_limit", 7));
  KVICK_TRY_VOID(require_number(map, "swiglu_alpha", 1.702));
  KVICK_TRY_VOID(map.copy_size("intermediate_size", "expert_feed_forward_length"));
  return map_experts(map);
}

// Queries are scaled up with the number of original context lengths before them.
Status<> map_ministral3(Mapper& map) {
  if (!map.config().find("rope_parameters")) return base::Done{};
  KVICK_TRY(const JsonObject rope, map.config().get_object("rope_parameters"));
  if (!rope.find("llama_4_scaling_beta")) return base::Done{};
  KVICK_TRY(const double scale, positive(rope, "llama_4_scaling_beta"));
  map.set("attention.temperature_scale", scale);
  return base::Done{};
}

// Every fourth layer has no rotation. Files could say otherwise, but no model does.
Status<> require_fourth_layers(Mapper& map) {
  KVICK_TRY(const uint64_t interval, map.config().get_uint("no_rope_layer_interval", 4));
  if (interval != 4)
    return base::fail("{} is {}; kvick knows 4", map.config().label("no_rope_layer_interval"),
                      interval);
  if (!map.config().find("no_rope_layers")) return base::Done{};
  KVICK_TRY(const simdjson::dom::array layers, map.config().get_array("no_rope_layers"));
  uint64_t layer = 0;
  for (const Json flag : layers) {
    ++layer;
    uint64_t rotates = 0;
    if (flag.get(rotates) != simdjson::SUCCESS || (rotates != 0) != (layer % 4 != 0))
      return base::fail("{} must be 0 for every fourth layer and 1 for the others",
                        map.config().label("no_rope_layers"));
  }
  return base::Done{};
}

Status<> map_layer_norms(Mapper& map) {
  const bool stable = map.config().find("layer_norm_eps").has_value();
  KVICK_TRY(const double epsilon,
            positive(map.config(), stable ? "layer_norm_eps" : "norm_epsilon", 1e-5));
  map.set("attention.layer_norm_epsilon", epsilon);
  return base::Done{};
}
Status<> map_stablelm(Mapper& map) {
  KVICK_TRY_VOID(map.require_flag("use_parallel_residual", false));
  KVICK_TRY_VOID(map.require_flag("qk_layernorm", false));
  return map_layer_norms(map);
}

// The bases of rotation for long contexts are in map_rope.
Status<> map_hunyuan(Mapper& map) {
  KVICK_TRY_VOID(map.require_flag("use_cla", false));
  return map.require_flag("use_qk_norm", true);
}
// Sets a size that files may write once for each layer.
Status<> copy_one_size(Mapper& map, std::string_view field, std::string_view key) {
  const auto told = map.config().find(field);
  if (!told || !told->is_array()) return map.copy_size(field, key);
  KVICK_TRY(const simdjson::dom::array list, map.config().get_array(field));
  uint64_t size = 0;
  for (const Json entry : list) {
    uint64_t own = 0;
    if (entry.get(own) != simdjson::SUCCESS || own == 0 || own > kMaxSize ||
        (size != 0 && own != size))
      return base::fail("{} must be one number, the same for all layers",
                        map.config().label(field));
    size = own;
  }
  if (size == 0) return base::fail("{} is an empty list", map.config().label(field));
  map.set(key, size);
  return base::Done{};
}
Status<> map_hunyuan_moe(Mapper& map) {
  KVICK_TRY_VOID(map_hunyuan(map));
  KVICK_TRY_VOID(copy_one_size(map, "num_experts", "expert_count"));
  KVICK_TRY_VOID(map.copy_size("intermediate_size", "expert_feed_forward_length"));
  return copy_one_size(map, "moe_topk", "expert_used_count");
}
Status<> map_nemotron(Mapper& map) {
  KVICK_TRY(const double epsilon, positive(map.config(), "norm_eps", 1e-5));
  map.set("attention.layer_norm_epsilon", epsilon);
  return base::Done{};
}
// Command R has the context that it was trained on in model_max_length, and a shorter one in the
// usual field.
Status<> map_cohere(Mapper& map) {
  KVICK_TRY_VOID(map.require_flag("use_qk_norm", false));
  if (map.config().find("model_max_length"))
    KVICK_TRY_VOID(map.copy_size("model_max_length", "context_length"));
  KVICK_TRY(const double scale, positive(map.config(), "logit_scale", 0.0625));
  map.set("logit_scale", scale);
  return map_layer_norms(map);
}
// GGUF's logit_scale divides.
Status<> map_minicpm(Mapper& map) {
  const JsonObject& config = map.config();
  KVICK_TRY(const uint64_t experts, config.get_uint("num_experts", 0));
  if (experts != 0)
    return base::fail("{} is {}; kvick reads MiniCPM without experts", config.label("num_experts"),
                      experts);
  KVICK_TRY(const uint64_t width, map.size("hidden_size"));
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  KVICK_TRY(const double embedding, positive(config, "scale_emb", 1));
  KVICK_TRY(const double depth, positive(config, "scale_depth", 1));
  KVICK_TRY(const double base, positive(config, "dim_model_base", 1));
  map.set("embedding_scale", embedding);
  map.set("residual_scale", depth / std::sqrt(static_cast<double>(layers)));
  map.set("logit_scale", static_cast<double>(width) / base);
  return base::Done{};
}

// The setting must be on. The first files have a number instead, which transformers only compares
// with 0.
Status<> require_temperatures(const Mapper& map) {
  const std::string_view field = "attn_temperature_tuning";
  const auto told = map.config().find(field);
  uint64_t number = 0;
  if (told && told->get(number) == simdjson::SUCCESS && number > 0) return base::Done{};
  return map.require_flag(field, true);
}

// Layers with rotation attend within chunks. Published files do not set the other options.
Status<> map_llama4(Mapper& map) {
  constexpr uint64_t kMaverick = 128;  // experts of the model that does not normalise heads
  KVICK_TRY_VOID(require_fourth_layers(map));
  KVICK_TRY_VOID(require_number(map, "floor_scale", 8192));
  KVICK_TRY_VOID(require_number(map, "attn_scale", 0.1));
  KVICK_TRY_VOID(require_temperatures(map));
  KVICK_TRY_VOID(map_experts(map));
  KVICK_TRY(const uint64_t experts, map.size("num_local_experts"));
  KVICK_TRY_VOID(map.require_flag("use_qk_norm", experts != kMaverick));
  KVICK_TRY_VOID(map.copy_size("intermediate_size", "expert_feed_forward_length"));
  KVICK_TRY_VOID(map.copy_size("attention_chunk_size", "attention.sliding_window"));
  KVICK_TRY(const uint64_t step, map.config().get_uint("interleave_moe_layer_step", 1));
  map.set("interleave_moe_layer_step", step);
  return map.copy_size("intermediate_size_mlp", "feed_forward_length");
}

constexpr std::string_view kTanhGelu = "gelu_pytorch_tanh";
// Google's folders of 4B, 12B and 27B omit fields with these values.
constexpr std::string_view kGemma3Defaults =
    R"("vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,)"
    R"( "max_position_embeddings": 131072, "rope_theta": 1000000.0, "sliding_window": 4096,)"
    R"( "query_pre_attn_scalar": 256)";

// transformers has these values where a file has none.
constexpr std::string_view kBase150k = R"("rope_theta": 150000.0)";
constexpr std::string_view kBase500k = R"("rope_theta": 500000.0)";
constexpr std::string_view kBase1M = R"("rope_theta": 1000000.0)";
constexpr std::string_view kBase2M = R"("rope_theta": 2000000.0)";
constexpr std::string_view kBase5M = R"("rope_theta": 5000000.0)";
constexpr std::string_view kQuarterRotates = R"("partial_rotary_factor": 0.25)";
constexpr std::string_view kHalfRotates = R"("partial_rotary_factor": 0.5)";

constexpr std::array kFamilies = {
    HfFamily{.model_type = "llama", .architecture = "llama"},
    HfFamily{.model_type = "mistral", .architecture = "llama"},
    HfFamily{.model_type = "mixtral",
             .architecture = "llama",
             .modules = kMixtral,
             .map = map_experts,
             .defaults = kBase1M},
    HfFamily{.model_type = "qwen2", .architecture = "qwen2"},
    HfFamily{.model_type = "qwen3", .architecture = "qwen3", .modules = kHeadNorms},
    HfFamily{.model_type = "qwen2_moe",
             .architecture = "qwen2moe",
             .modules = kQwenMoe,
             .map = map_qwen_moe},
    HfFamily{.model_type = "qwen3_moe",
             .architecture = "qwen3moe",
             .modules = kQwenMoe,
             .map = map_qwen_moe},
    HfFamily{.model_type = "qwen3_next",
             .architecture = "qwen3next",
             .shifted_norms = true,
             .modules = kDelta,
             .map = map_delta_moe,
             .defaults = kQuarterRotates},
    HfFamily{.model_type = "qwen3_5_text",
             .architecture = "qwen35",
             .shifted_norms = true,
             .modules = kDelta,
             .map = map_delta,
             .defaults = kQuarterRotates},
    HfFamily{.model_type = "qwen3_5_moe_text",
             .architecture = "qwen35moe",
             .shifted_norms = true,
             .modules = kDelta,
             .map = map_delta_moe,
             .defaults = kQuarterRotates},
    HfFamily{.model_type = "gemma",
             .architecture = "gemma",
             .tied = true,
             .shifted_norms = true,
             .activation = kTanhGelu},
    HfFamily{.model_type = "gemma2",
             .architecture = "gemma2",
             .tied = true,
             .shifted_norms = true,
             .activation = kTanhGelu,
             .modules = kGemma,
             .map = map_gemma2},
    HfFamily{.model_type = "gemma3_text",
             .architecture = "gemma3",
             .tied = true,
             .shifted_norms = true,
             .activation = kTanhGelu,
             .modules = kGemma,
             .map = map_gemma3,
             .defaults = kGemma3Defaults},
    HfFamily{.model_type = "gemma3n_text",
             .architecture = "gemma3n",
             .tied = true,
             .activation = kTanhGelu,
             .modules = kGemma3n,
             .map = map_gemma3n},
    HfFamily{.model_type = "gemma4_text",
             .architecture = "gemma4",
             .tied = true,
             .activation = kTanhGelu,
             .modules = kGemma4,
             .map = map_gemma4},
    HfFamily{.model_type = "gpt_oss",
             .architecture = "gpt-oss",
             .gate_up = GateUp::kInterleaved,
             .modules = kGptOss,
             .map = map_gpt_oss,
             .defaults = kBase150k},
    HfFamily{.model_type = "phi3", .architecture = "phi3", .modules = kPhi3, .map = map_phi3},
    HfFamily{.model_type = "smollm3",
             .architecture = "smollm3",
             .tied = true,
             .map = require_fourth_layers,
             .defaults = kBase2M},
    HfFamily{.model_type = "granite", .architecture = "granite", .map = map_granite},
    HfFamily{.model_type = "granitemoe",
             .architecture = "granitemoe",
             .modules = kGraniteMoe,
             .map = map_granite_moe},
    HfFamily{.model_type = "granitemoehybrid",
             .architecture = "granitehybrid",
             .modules = kGraniteHybrid,
             .expert_modules = kGraniteHybridMoe,
             .map = map_granite_hybrid},
    HfFamily{.model_type = "ministral3", .architecture = "mistral3", .map = map_ministral3},
    HfFamily{.model_type = "llama4_text",
             .architecture = "llama4",
             .interleaved = true,
             .gate_up = GateUp::kHalves,
             .modules = kLlama4,
             .map = map_llama4,
             .defaults = kBase500k},
    HfFamily{.model_type = "glm4",
             .architecture = "glm4",
             .interleaved = true,
             .modules = kGlm4,
             .defaults = kHalfRotates},
    HfFamily{.model_type = "glm4_moe",
             .architecture = "glm4moe",
             .modules = kGlm4Moe,
             .map = map_glm4_moe},
    HfFamily{.model_type = "glm4_moe_lite",
             .architecture = "deepseek2",
             .interleaved = true,
             .modules = kDeepseek,
             .map = map_deepseek3},
    HfFamily{.model_type = "deepseek_v2",
             .architecture = "deepseek2",
             .interleaved = true,
             .modules = kDeepseek,
             .map = map_deepseek2},
    HfFamily{.model_type = "deepseek_v3",
             .architecture = "deepseek2",
             .interleaved = true,
             .modules = kDeepseek,
             .map = map_deepseek3},
    HfFamily{.model_type = "minicpm3",
             .architecture = "minicpm3",
             .tied = true,
             .modules = kDeepseek,
             .map = map_minicpm3},
    HfFamily{.model_type = "lfm2",
             .architecture = "lfm2",
             .tied = true,
             .modules = kLfm2,
             .map = map_lfm2,
             .defaults = kBase1M},
    HfFamily{.model_type = "lfm2_moe",
             .architecture = "lfm2moe",
             .tied = true,
             .modules = kLfm2,
             .map = map_lfm2_moe,
             .defaults = kBase1M},
    HfFamily{.model_type = "olmo2", .architecture = "olmo2", .modules = kOlmo},
    HfFamily{
        .model_type = "olmo3", .architecture = "olmo2", .modules = kOlmo, .defaults = kBase500k},
    HfFamily{.model_type = "stablelm",
             .architecture = "stablelm",
             .map = map_stablelm,
             .defaults = kQuarterRotates},
    HfFamily{.model_type = "starcoder2",
             .architecture = "starcoder2",
             .tied = true,
             .activation = kTanhGelu,
             .modules = kStarcoder,
             .map = map_layer_norms},
    HfFamily{.model_type = "nemotron_h",
             .architecture = "nemotron_h",
             .modules = kMixers,
             .map_all = map_nemotron_h},
    HfFamily{.model_type = "mamba2",
             .architecture = "mamba2",
             .modules = kMixers,
             .map_all = map_mamba2},
    HfFamily{.model_type = "qwen3_vl_text",
             .architecture = "qwen3vl",
             .modules = kHeadNorms,
             .map = map_sections,
             .defaults = kBase500k},
    HfFamily{.model_type = "qwen3_vl_moe_text",
             .architecture = "qwen3vlmoe",
             .gate_up = GateUp::kHalves,
             .modules = kQwenVlMoe,
             .map = map_qwen_vl_moe,
             .defaults = kBase500k},
    // Before their text had a part of its own, files had its fields beside those for pictures.
    HfFamily{.model_type = "qwen2_vl",
             .architecture = "qwen2vl",
             .map = map_sections,
             .defaults = kBase1M},
    HfFamily{.model_type = "qwen2_5_vl",
             .architecture = "qwen2vl",
             .map = map_sections,
             .defaults = kBase1M},
    HfFamily{.model_type = "qwen2_vl_text",
             .architecture = "qwen2vl",
             .map = map_sections,
             .defaults = kBase1M},
    HfFamily{.model_type = "qwen2_5_vl_text",
             .architecture = "qwen2vl",
             .map = map_sections,
             .defaults = kBase1M},
    HfFamily{.model_type = "olmoe", .architecture = "olmoe", .modules = kQwenMoe, .map = map_olmoe},
    HfFamily{.model_type = "dots1",
             .architecture = "dots1",
             .modules = std::span(kGlm4Moe).subspan(1),
             .map = map_dots1},
    HfFamily{.model_type = "minimax_m2",
             .architecture = "minimax-m2",
             .modules = kMinimax,
             .map = map_minimax,
             .defaults = kBase5M},
    HfFamily{.model_type = "seed_oss", .architecture = "seed_oss", .modules = kSeedOss},
    HfFamily{.model_type = "ernie4_5",
             .architecture = "ernie4_5",
             .tied = true,
             .interleaved = true,
             .defaults = kBase500k},
    HfFamily{.model_type = "ernie4_5_moe",
             .architecture = "ernie4_5-moe",
             .tied = true,
             .interleaved = true,
             .modules = kErnieMoe,
             .map = map_ernie_moe,
             .defaults = kBase500k},
    HfFamily{.model_type = "exaone4", .architecture = "exaone4", .modules = kOlmo},
    HfFamily{.model_type = "cohere",
             .architecture = "command-r",
             .tied = true,
             .interleaved = true,
             .map = map_cohere,
             .defaults = kBase500k},
    HfFamily{.model_type = "cohere2",
             .architecture = "cohere2",
             .tied = true,
             .interleaved = true,
             .map = map_cohere},
    HfFamily{.model_type = "hunyuan_v1_dense",
             .architecture = "hunyuan-dense",
             .modules = kHunyuan,
             .map = map_hunyuan},
    HfFamily{.model_type = "hunyuan_v1_moe",
             .architecture = "hunyuan-moe",
             .modules = kHunyuanMoe,
             .map = map_hunyuan_moe},
    HfFamily{.model_type = "glm",
             .architecture = "chatglm",
             .interleaved = true,
             .modules = kGlm,
             .defaults = kHalfRotates},
    HfFamily{.model_type = "minicpm", .architecture = "minicpm", .tied = true, .map = map_minicpm},
    HfFamily{.model_type = "arcee", .architecture = "arcee", .activation = "relu2"},
    HfFamily{.model_type = "nemotron",
             .architecture = "nemotron",
             .shifted_norms = true,
             .activation = "relu2",
             .map = map_nemotron,
             .defaults = kHalfRotates},
    HfFamily{.model_type = "opt", .architecture = "opt", .tied = true},
};

}  // namespace

std::span<const HfFamily> hf_families() { return kFamilies; }

const HfFamily* find_hf_family(std::string_view model_type) {
  for (const HfFamily& family : kFamilies)
    if (family.model_type == model_type) return &family;
  return nullptr;
}

}  // namespace kvick::io
