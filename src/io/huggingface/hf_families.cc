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
// Norms before and after each block.
constexpr Rename kGemma[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
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
constexpr Rename kMixtral[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate"},
    {"block_sparse_moe.experts.*.w2", "ffn_down"},
    {"block_sparse_moe.experts.*.w3", "ffn_up"},
};
// Experts have the names that join_tensors gives them.
constexpr Rename kGptOss[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"self_attn.sinks", "attn_sinks"},
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

// Scores are multiplied by this number's inverse root, not the head's.
Status<> map_query_scalar(Mapper& map) {
  if (!map.config().find("query_pre_attn_scalar")) return base::Done{};
  KVICK_TRY(const double scalar, positive(map.config(), "query_pre_attn_scalar"));
  map.set("attention.scale", 1 / std::sqrt(scalar));
  return base::Done{};
}

Status<> map_gemma2(Mapper& map) {
  KVICK_TRY_VOID(copy_positive(map, "attn_logit_softcapping", "attn_logit_softcapping"));
  KVICK_TRY_VOID(copy_positive(map, "final_logit_softcapping", "final_logit_softcapping"));
  return map_query_scalar(map);
}

Status<> map_gemma3(Mapper& map) {
  KVICK_TRY_VOID(copy_positive(map, "rope_local_base_freq", "rope.freq_base_swa"));
  KVICK_TRY_VOID(copy_positive(map, "final_logit_softcapping", "final_logit_softcapping"));
  return map_query_scalar(map);
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
// Which layers have experts the tensors say.
Status<> map_qwen_moe(Mapper& map) {
  KVICK_TRY_VOID(map_experts(map));
  KVICK_TRY(const bool normalised, map.config().get_bool("norm_topk_prob", false));
  map.set("expert_weights_norm", normalised);
  return base::Done{};
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

// Queries grow with the number of original contexts before them.
Status<> map_ministral3(Mapper& map) {
  if (!map.config().find("rope_parameters")) return base::Done{};
  KVICK_TRY(const JsonObject rope, map.config().get_object("rope_parameters"));
  if (!rope.find("llama_4_scaling_beta")) return base::Done{};
  KVICK_TRY(const double scale, positive(rope, "llama_4_scaling_beta"));
  map.set("attention.temperature_scale", scale);
  return base::Done{};
}

// The layers that do not rotate are every fourth; a file may say others, which no model does.
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

// Layers that rotate see chunks; what else files may set, published ones do not.
Status<> map_llama4(Mapper& map) {
  constexpr uint64_t kMaverick = 128;  // experts of the model without normalised heads
  KVICK_TRY_VOID(require_fourth_layers(map));
  KVICK_TRY_VOID(require_number(map, "floor_scale", 8192));
  KVICK_TRY_VOID(require_number(map, "attn_scale", 0.1));
  KVICK_TRY_VOID(map.require_flag("attn_temperature_tuning", true));
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

constexpr std::array kFamilies = {
    HfFamily{.model_type = "llama", .architecture = "llama"},
    HfFamily{.model_type = "mistral", .architecture = "llama"},
    HfFamily{
        .model_type = "mixtral", .architecture = "llama", .modules = kMixtral, .map = map_experts},
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
             .map = map_gemma3},
    HfFamily{.model_type = "gpt_oss",
             .architecture = "gpt-oss",
             .gate_up = GateUp::kInterleaved,
             .modules = kGptOss,
             .map = map_gpt_oss},
    HfFamily{.model_type = "phi3", .architecture = "phi3", .modules = kPhi3},
    HfFamily{.model_type = "smollm3",
             .architecture = "smollm3",
             .tied = true,
             .map = require_fourth_layers},
    HfFamily{.model_type = "granite", .architecture = "granite", .map = map_granite},
    HfFamily{.model_type = "granitemoe",
             .architecture = "granitemoe",
             .modules = kGraniteMoe,
             .map = map_granite_moe},
    HfFamily{.model_type = "ministral3", .architecture = "mistral3", .map = map_ministral3},
    HfFamily{.model_type = "llama4_text",
             .architecture = "llama4",
             .interleaved = true,
             .gate_up = GateUp::kHalves,
             .modules = kLlama4,
             .map = map_llama4},
    HfFamily{.model_type = "glm4", .architecture = "glm4", .interleaved = true, .modules = kGlm4},
    HfFamily{.model_type = "olmo2", .architecture = "olmo2", .modules = kOlmo},
    HfFamily{.model_type = "olmo3", .architecture = "olmo2", .modules = kOlmo},
    HfFamily{.model_type = "stablelm", .architecture = "stablelm", .map = map_stablelm},
    HfFamily{.model_type = "starcoder2",
             .architecture = "starcoder2",
             .tied = true,
             .activation = kTanhGelu,
             .modules = kStarcoder,
             .map = map_layer_norms},
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
