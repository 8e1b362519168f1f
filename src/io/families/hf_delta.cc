// Models with gated delta nets: Qwen3-Next, Qwen3.5 and 3.6.

#include <utility>
#include <vector>

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

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

constexpr HfFamily kFamilies[] = {
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
};

}  // namespace

std::span<const HfFamily> delta_families() { return kFamilies; }

}  // namespace kvick::io
