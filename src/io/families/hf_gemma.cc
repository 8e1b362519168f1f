// Gemma 1 to 4.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

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

// Head dimensions and numbers of KV heads, for layers without a window (full) and with one. Full
// layers have wider heads and may have fewer of them.
struct Heads {
  uint64_t full_dim = 0, window_dim = 0;
  uint64_t full_kv = 0, window_kv = 0;
};

base::Result<std::vector<bool>> full_layers(const Mapper& map) {
  KVICK_TRY(const simdjson::dom::array types, map.config().get_array("layer_types"));
  std::vector<bool> full;
  for (const Json type : types) {
    std::string_view name;
    full.push_back(type.get(name) == simdjson::SUCCESS && name == "full_attention");
  }
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  if (full.size() != layers)
    return base::fail("{} names {} layers, but there are {}", map.config().label("layer_types"),
                      full.size(), layers);
  return full;
}

// Files give the sizes of layers without a window once for all, or per layer with equal values.
base::Status<> read_layer(const Mapper& map, const std::vector<bool>& full, Heads& heads) {
  if (!map.config().find("per_layer_config")) return base::Done{};
  KVICK_TRY(const JsonObject layers, map.config().get_object("per_layer_config"));
  bool seen = false;
  for (const auto& [name, numbers] : layers.fields()) {
    uint64_t layer = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (error != std::errc() || end != name.data() + name.size() || layer >= full.size() ||
        !full[layer])
      return base::fail(
          "{} must be a layer without a window; kvick reads own sizes of such layers only",
          layers.label(name));
    KVICK_TRY(const JsonObject own, JsonObject::from(numbers, layers.label(name)));
    const uint64_t dim = heads.full_dim, kv = heads.full_kv;
    KVICK_TRY(heads.full_dim, own.get_uint("head_dim", heads.full_dim));
    KVICK_TRY(heads.full_kv, own.get_uint("num_key_value_heads", heads.full_kv));
    const bool differs = dim != heads.full_dim || kv != heads.full_kv;
    if (std::exchange(seen, true) && differs)
      return base::fail(
          "{} differs from the other layers without a window; kvick needs them to be alike",
          layers.label(name));
  }
  return base::Done{};
}

base::Status<> map_gemma4_heads(Mapper& map, const std::vector<bool>& full, Heads& heads) {
  KVICK_TRY(heads.window_dim, map.size("head_dim"));
  KVICK_TRY(heads.window_kv, map.size("num_key_value_heads"));
  KVICK_TRY(heads.full_dim, map.size("global_head_dim", heads.window_dim));
  KVICK_TRY(heads.full_kv, map.size("num_global_key_value_heads", heads.window_kv));
  KVICK_TRY_VOID(read_layer(map, full, heads));
  for (const char* key : {"attention.key_length", "attention.value_length"}) {
    map.set(key, heads.full_dim);
    map.set(std::string(key) + "_swa", heads.window_dim);
  }
  std::vector<uint64_t> kv_heads;
  for (const bool one : full) kv_heads.push_back(one ? heads.full_kv : heads.window_kv);
  map.set("attention.head_count_kv", std::move(kv_heads));
  return base::Done{};
}

// In a head without a window only the first pairs rotate, at the frequencies of the whole head.
base::Status<> map_proportional(Mapper& map, uint64_t head_dim) {
  KVICK_TRY(const JsonObject rope, map.config().get_object("rope_parameters"));
  KVICK_TRY(const JsonObject full, rope.get_object("full_attention"));
  KVICK_TRY(const double part, positive(full, "partial_rotary_factor", 1));
  KVICK_TRY(const double factor, positive(full, "factor", 1));
  constexpr uint64_t kMostHeadDim = 1 << 16;
  if (head_dim > kMostHeadDim)
    return base::fail("{}: heads of {} elements; {} are the most", map.config().label("head_dim"),
                      head_dim, kMostHeadDim);
  constexpr float kNever = 1e30F;  // a frequency divided by this does not rotate
  std::vector<float> factors(head_dim / 2, kNever);
  const auto turning = static_cast<uint64_t>(part * static_cast<double>(head_dim) / 2);
  for (uint64_t i = 0; i < std::min<uint64_t>(turning, factors.size()); ++i)
    factors[i] = static_cast<float>(factor);
  map.set("rope.dimension_count", head_dim);
  map.set_whole("kvick.rope_freqs", std::move(factors));
  return base::Done{};
}

base::Status<> map_gemma4_experts(Mapper& map) {
  KVICK_TRY(const bool has, map.config().get_bool("enable_moe_block", false));
  if (!has) return base::Done{};
  KVICK_TRY_VOID(map.copy_size("num_experts", "expert_count"));
  KVICK_TRY_VOID(map.copy_size("top_k_experts", "expert_used_count"));
  return map.copy_size("moe_intermediate_size", "expert_feed_forward_length");
}

// Returns the number of standard deviations above the mean below which `share` of a normal
// distribution lies. Found by bisection, because the library has no inverse of the integral.
double deviations_of(double share) {
  constexpr double kMost = 40;
  double low = -kMost, high = kMost;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return low;
}

// Maps, for each layer, the share of a gate's values that are taken as zero.
base::Status<> map_sparsity(Mapper& map) {
  const std::string_view field = "activation_sparsity_pattern";
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  std::vector<float> deviations;
  if (map.config().find(field)) {
    KVICK_TRY(const simdjson::dom::array shares, map.config().get_array(field));
    for (const Json value : shares) {
      double share = 0;
      if (value.get(share) != simdjson::SUCCESS || !(share >= 0 && share < 1))
        return base::fail("{} must hold numbers from 0 to below 1", map.config().label(field));
      deviations.push_back(share == 0 ? 0.0F : static_cast<float>(deviations_of(share)));
    }
  }
  if (deviations.size() != layers)
    return base::fail("{} has {} numbers, but there are {} layers", map.config().label(field),
                      deviations.size(), layers);
  map.set("activation_sparsity_scale", std::move(deviations));
  return base::Done{};
}

base::Status<> map_layer_inputs(Mapper& map) {
  KVICK_TRY(const uint64_t inputs, map.config().get_uint("hidden_size_per_layer_input", 0));
  map.set("embedding_length_per_layer_input", inputs);
  return base::Done{};
}

// A null field means that there is no limit; if it is absent, the family's default applies.
base::Status<> map_softcap(Mapper& map, std::string_view field) {
  double cap = 0;
  if (map.config().find(field)) {
    KVICK_TRY(cap, positive(map.config(), field));
  } else if (map.config().fields().at_key(field).error() != simdjson::SUCCESS) {
    return base::Done{};
  }
  map.set(field, cap);
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

base::Status<> map_gemma3n(Mapper& map) {
  KVICK_TRY(const uint64_t shared, map.config().get_uint("num_kv_shared_layers", 15));
  map.set("attention.shared_kv_layers", shared);
  KVICK_TRY_VOID(map.copy_size("altup_num_inputs", "altup.num_inputs"));
  KVICK_TRY(const uint64_t active, map.config().get_uint("altup_active_idx", 0));
  map.set("altup.active_idx", active);
  KVICK_TRY_VOID(map.require_flag("altup_correct_scale", true));
  KVICK_TRY_VOID(map_sparsity(map));
  KVICK_TRY_VOID(map_softcap(map, "final_logit_softcapping"));
  return map_layer_inputs(map);
}

base::Status<> map_gemma4(Mapper& map) {
  Heads heads;
  KVICK_TRY(const std::vector<bool> full, full_layers(map));
  KVICK_TRY_VOID(map_gemma4_heads(map, full, heads));
  KVICK_TRY_VOID(map_proportional(map, heads.full_dim));
  KVICK_TRY(const uint64_t shared, map.config().get_uint("num_kv_shared_layers", 0));
  map.set("attention.shared_kv_layers", shared);
  KVICK_TRY(const bool wide, map.config().get_bool("use_double_wide_mlp", false));
  if (wide) {
    KVICK_TRY(const uint64_t width, map.size("intermediate_size"));
    std::vector<uint64_t> widths;
    for (size_t i = 0; i < full.size(); ++i)
      widths.push_back(i + shared < full.size() ? width : 2 * width);
    map.set("feed_forward_length", std::move(widths));
  }
  KVICK_TRY_VOID(map_layer_inputs(map));
  map.set("final_logit_softcapping", 0.0);  // an absent field means no limit in Gemma 4
  KVICK_TRY_VOID(map_softcap(map, "final_logit_softcapping"));
  return map_gemma4_experts(map);
}

// Google's folders of 4B, 12B and 27B omit fields with these values.
constexpr std::string_view kGemma3Defaults =
    R"("vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,)"
    R"( "max_position_embeddings": 131072, "rope_theta": 1000000.0, "sliding_window": 4096,)"
    R"( "query_pre_attn_scalar": 256)";

constexpr HfFamily kFamilies[] = {
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
};

}  // namespace

std::span<const HfFamily> gemma_families() { return kFamilies; }

}  // namespace kvick::io
