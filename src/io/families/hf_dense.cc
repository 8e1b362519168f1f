// Decoders whose layers are attention and one feed-forward block.

#include <cmath>

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

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
constexpr Rename kGlm[] = {
    {"mlp.gate_up_proj", "ffn_up"},
};
constexpr Rename kStarcoder[] = {
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
};

// Absent and null both mean no window here, but GGUF files without the key may have one.
Status<> map_phi3(Mapper& map) {
  if (!map.config().find("sliding_window")) map.set("attention.sliding_window", uint64_t{0});
  return base::Done{};
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

constexpr std::string_view kBase2M = R"("rope_theta": 2000000.0)";

constexpr HfFamily kFamilies[] = {
    HfFamily{.model_type = "llama", .architecture = "llama"},
    HfFamily{.model_type = "mistral", .architecture = "llama"},
    HfFamily{.model_type = "qwen2", .architecture = "qwen2"},
    HfFamily{.model_type = "qwen3", .architecture = "qwen3", .modules = kHeadNorms},
    HfFamily{.model_type = "phi3", .architecture = "phi3", .modules = kPhi3, .map = map_phi3},
    HfFamily{.model_type = "smollm3",
             .architecture = "smollm3",
             .tied = true,
             .map = require_fourth_layers,
             .defaults = kBase2M},
    HfFamily{.model_type = "granite", .architecture = "granite", .map = map_granite},
    HfFamily{.model_type = "ministral3", .architecture = "mistral3", .map = map_ministral3},
    HfFamily{.model_type = "glm",
             .architecture = "chatglm",
             .interleaved = true,
             .modules = kGlm,
             .defaults = kHalfRotates},
    HfFamily{.model_type = "glm4",
             .architecture = "glm4",
             .interleaved = true,
             .modules = kGlm4,
             .defaults = kHalfRotates},
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
    HfFamily{.model_type = "seed_oss", .architecture = "seed_oss", .modules = kSeedOss},
    HfFamily{.model_type = "ernie4_5",
             .architecture = "ernie4_5",
             .tied = true,
             .interleaved = true,
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

Status<> map_granite(Mapper& map) {
  KVICK_TRY_VOID(copy_positive(map, "embedding_multiplier", "embedding_scale"));
  KVICK_TRY_VOID(copy_positive(map, "residual_multiplier", "residual_scale"));
  KVICK_TRY_VOID(copy_positive(map, "logits_scaling", "logit_scale"));
  return copy_positive(map, "attention_multiplier", "attention.scale");
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

// The bases of rotation for long contexts are in map_rope.
Status<> map_hunyuan(Mapper& map) {
  KVICK_TRY_VOID(map.require_flag("use_cla", false));
  return map.require_flag("use_qk_norm", true);
}

std::span<const HfFamily> dense_families() { return kFamilies; }

}  // namespace kvick::io
