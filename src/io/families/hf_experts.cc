// Decoders with mixtures of experts, but those with DeepSeek's router (hf_deepseek.cc).

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

constexpr Rename kMixtral[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate"},
    {"block_sparse_moe.experts.*.w2", "ffn_down"},
    {"block_sparse_moe.experts.*.w3", "ffn_up"},
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
constexpr Rename kMinimax[] = {
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate"},
    {"block_sparse_moe.experts.*.w2", "ffn_down"},
    {"block_sparse_moe.experts.*.w3", "ffn_up"},
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

Status<> map_granite_moe(Mapper& map) {
  KVICK_TRY_VOID(map_granite(map));
  return map_experts(map);
}

Status<> map_gpt_oss(Mapper& map) {
  KVICK_TRY_VOID(require_number(map, "swiglu_limit", 7));
  KVICK_TRY_VOID(require_number(map, "swiglu_alpha", 1.702));
  KVICK_TRY_VOID(map.copy_size("intermediate_size", "expert_feed_forward_length"));
  return map_experts(map);
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

// transformers has these values where a file has none.
constexpr std::string_view kBase150k = R"("rope_theta": 150000.0)";
constexpr std::string_view kBase5M = R"("rope_theta": 5000000.0)";

constexpr HfFamily kFamilies[] = {
    HfFamily{.model_type = "mixtral",
             .architecture = "llama",
             .modules = kMixtral,
             .map = map_experts,
             .defaults = kBase1M},
    HfFamily{.model_type = "qwen2_moe",
             .architecture = "qwen2moe",
             .modules = kQwenMoe,
             .map = map_qwen_moe},
    HfFamily{.model_type = "qwen3_moe",
             .architecture = "qwen3moe",
             .modules = kQwenMoe,
             .map = map_qwen_moe},
    HfFamily{.model_type = "olmoe", .architecture = "olmoe", .modules = kQwenMoe, .map = map_olmoe},
    HfFamily{.model_type = "gpt_oss",
             .architecture = "gpt-oss",
             .gate_up = GateUp::kInterleaved,
             .modules = kGptOss,
             .map = map_gpt_oss,
             .defaults = kBase150k},
    HfFamily{.model_type = "granitemoe",
             .architecture = "granitemoe",
             .modules = kGraniteMoe,
             .map = map_granite_moe},
    HfFamily{.model_type = "llama4_text",
             .architecture = "llama4",
             .interleaved = true,
             .gate_up = GateUp::kHalves,
             .modules = kLlama4,
             .map = map_llama4,
             .defaults = kBase500k},
    HfFamily{.model_type = "minimax_m2",
             .architecture = "minimax-m2",
             .modules = kMinimax,
             .map = map_minimax,
             .defaults = kBase5M},
    HfFamily{.model_type = "ernie4_5_moe",
             .architecture = "ernie4_5-moe",
             .tied = true,
             .interleaved = true,
             .modules = kErnieMoe,
             .map = map_ernie_moe,
             .defaults = kBase500k},
    HfFamily{.model_type = "hunyuan_v1_moe",
             .architecture = "hunyuan-moe",
             .modules = kHunyuanMoe,
             .map = map_hunyuan_moe},
};

}  // namespace

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

std::span<const HfFamily> expert_families() { return kFamilies; }

}  // namespace kvick::io
