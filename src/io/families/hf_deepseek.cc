// DeepSeek V2 and V3, and models built like them: Kimi K2, GLM-4.5 to 4.7, MiniCPM3; Nemotron-H's
// experts.

#include <cmath>

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

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

// Maps YaRN scaling. GGUF has a tenth of mscale_all_dim, from which the scale of scores follows,
// and the whole factor on cosines and sines.
Status<> map_stretched(Mapper& map) {
  const JsonObject& config = map.config();
  for (const std::string_view field : {"rope_scaling", "rope_parameters"}) {
    if (!config.find(field)) continue;
    KVICK_TRY(const JsonObject rope, config.get_object(field));
    KVICK_TRY(std::string type, rope.get_string("type", "default"));
    KVICK_TRY(type, rope.get_string("rope_type", type));
    KVICK_TRY(const double told, rope.get_float("mscale_all_dim", 0));
    if (type != "yarn" || told == 0) continue;  // 0 means that there is none
    KVICK_TRY(const double factor, positive(rope, "factor"));
    KVICK_TRY(const double all, positive(rope, "mscale_all_dim"));
    KVICK_TRY(const double scale, positive(rope, "mscale", 1));
    const double grown = factor > 1 ? 0.1 * std::log(factor) : 0;
    map.set("rope.scaling.yarn_log_multiplier", 0.1 * all);
    map.set("rope.scaling.attn_factor", (1 + scale * grown) / (1 + all * grown));
  }
  return base::Done{};
}

// value_dim: dimension of a head's values, for files that omit it.
Status<> map_latent(Mapper& map, std::optional<uint64_t> value_dim = {}) {
  KVICK_TRY(const uint64_t plain, map.size("qk_nope_head_dim"));
  KVICK_TRY(const uint64_t rotated, map.size("qk_rope_head_dim"));
  map.set("attention.key_length", plain + rotated);
  map.set("rope.dimension_count", rotated);
  KVICK_TRY(const uint64_t values, map.size("v_head_dim", value_dim));
  map.set("attention.value_length", values);
  KVICK_TRY_VOID(map.copy_size("kv_lora_rank", "attention.kv_lora_rank"));
  if (!map.config().find("q_lora_rank")) return base::Done{};
  return map.copy_size("q_lora_rank", "attention.q_lora_rank");
}

// GGUF's numbers of gating functions.
constexpr uint64_t kSoftmax = 1, kSigmoid = 2;

Status<> map_router(Mapper& map, bool sigmoid) {
  KVICK_TRY(const std::string model, map.config().get_string("model_type"));
  KVICK_TRY(const std::string scoring, map.config().get_string("scoring_func", std::string()));
  // The first folders of dots.llm1 have topk_method's value there.
  const bool of_dots = model == "dots1" && scoring == "noaux_tc";
  if (!of_dots) KVICK_TRY_VOID(map.require_name("scoring_func", sigmoid ? "sigmoid" : "softmax"));
  map.set("expert_gating_func", sigmoid ? kSigmoid : kSoftmax);
  KVICK_TRY(const bool normalised, map.config().get_bool("norm_topk_prob", sigmoid));
  map.set("expert_weights_norm", normalised);
  KVICK_TRY(const double scale, positive(map.config(), "routed_scaling_factor", 1));
  map.set("expert_weights_scale", scale);
  return base::Done{};
}

Status<> map_routed(Mapper& map, bool sigmoid) {
  KVICK_TRY_VOID(map.copy_size("n_routed_experts", "expert_count"));
  KVICK_TRY_VOID(map.copy_size("num_experts_per_tok", "expert_used_count"));
  KVICK_TRY_VOID(map.copy_size("moe_intermediate_size", "expert_feed_forward_length"));
  KVICK_TRY(const uint64_t shared, map.config().get_uint("n_shared_experts", 0));
  map.set("expert_shared_count", shared);
  KVICK_TRY(const uint64_t dense, map.config().get_uint("first_k_dense_replace", sigmoid ? 1 : 0));
  map.set("leading_dense_block_count", dense);  // the tensors show which layers have experts
  return map_router(map, sigmoid);
}

Status<> map_groups(Mapper& map) {
  KVICK_TRY(const uint64_t groups, map.config().get_uint("n_group", 1));
  if (groups <= 1) return base::Done{};
  map.set("expert_group_count", groups);
  return map.copy_size("topk_group", "expert_group_used_count");
}

Status<> map_deepseek2(Mapper& map) {
  KVICK_TRY_VOID(map_latent(map));
  KVICK_TRY_VOID(map_stretched(map));
  KVICK_TRY_VOID(map_routed(map, false));
  KVICK_TRY(const std::string method, map.config().get_string("topk_method", "greedy"));
  if (method == "greedy") return base::Done{};
  KVICK_TRY_VOID(map.require_name("topk_method", "group_limited_greedy"));
  return map_groups(map);
}

Status<> map_deepseek3(Mapper& map) {
  KVICK_TRY_VOID(map.require_flag("rope_interleave", true));
  KVICK_TRY_VOID(map.require_name("topk_method", "noaux_tc"));
  KVICK_TRY_VOID(map_latent(map));
  KVICK_TRY_VOID(map_stretched(map));
  KVICK_TRY_VOID(map_routed(map, true));
  return map_groups(map);
}

Status<> map_dots1(Mapper& map) {
  KVICK_TRY_VOID(map_routed(map, true));
  return map_groups(map);
}

Status<> map_glm4_moe(Mapper& map) {
  KVICK_TRY_VOID(map_routed(map, true));
  KVICK_TRY_VOID(map_groups(map));
  bool told = map.config().find("partial_rotary_factor").has_value();
  if (map.config().find("rope_parameters")) {
    KVICK_TRY(const JsonObject rope, map.config().get_object("rope_parameters"));
    told = told || rope.find("partial_rotary_factor").has_value();
  }
  if (told) return base::Done{};
  KVICK_TRY(const uint64_t head_dim, map.size("head_dim"));
  map.set("rope.dimension_count", head_dim / 2);
  return base::Done{};
}

Status<> map_minicpm3(Mapper& map) {
  for (const auto& [field, wanted] : {std::pair{"scale_emb", 12.0}, std::pair{"scale_depth", 1.4},
                                      std::pair{"dim_model_base", 256.0}}) {
    KVICK_TRY(const double value, map.config().get_float(field, wanted));
    if (value != wanted)
      return base::fail("{} is {}; kvick knows {}", map.config().label(field), value, wanted);
  }
  KVICK_TRY(const uint64_t width, map.size("hidden_size"));
  KVICK_TRY(const uint64_t heads, map.size("num_attention_heads"));
  return map_latent(map, width / heads);
}

constexpr HfFamily kFamilies[] = {
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
    HfFamily{.model_type = "kimi_k2",
             .architecture = "deepseek2",
             .interleaved = true,
             .modules = kDeepseek,
             .map = map_deepseek3},
    HfFamily{.model_type = "glm4_moe_lite",
             .architecture = "deepseek2",
             .interleaved = true,
             .modules = kDeepseek,
             .map = map_deepseek3},
    HfFamily{.model_type = "glm4_moe",
             .architecture = "glm4moe",
             .modules = kGlm4Moe,
             .map = map_glm4_moe},
    HfFamily{.model_type = "dots1",
             .architecture = "dots1",
             .modules = std::span(kGlm4Moe).subspan(1),
             .map = map_dots1},
    HfFamily{.model_type = "minicpm3",
             .architecture = "minicpm3",
             .tied = true,
             .modules = kDeepseek,
             .map = map_minicpm3},
};

}  // namespace

Status<> map_nemotron_experts(Mapper& map) {
  if (map.config().find("moe_latent_size"))
    return base::fail("{} says that experts have a latent width, which kvick does not run",
                      map.config().label("moe_latent_size"));
  KVICK_TRY_VOID(map.copy_size("n_routed_experts", "expert_count"));
  KVICK_TRY_VOID(map.copy_size("num_experts_per_tok", "expert_used_count"));
  KVICK_TRY_VOID(map.copy_size("moe_intermediate_size", "expert_feed_forward_length"));
  KVICK_TRY_VOID(
      map.copy_size("moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"));
  KVICK_TRY(const uint64_t shared, map.size("n_shared_experts", 1));
  map.set("expert_shared_count", shared);
  KVICK_TRY_VOID(map_router(map, true));
  return map_groups(map);
}

std::span<const HfFamily> latent_families() { return kFamilies; }

}  // namespace kvick::io
