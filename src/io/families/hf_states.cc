// Models with attention and with states: LFM2 and Granite 4.0 H, whose layers have one of them
// (those with a state have no KV heads), and Falcon-H1, whose layers have both.

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

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

// Returns which layers have attention. layer_types names the kind of each layer; an older field
// lists the attention layers. others: the names of the other kinds.
base::Result<std::vector<bool>> attending_layers(const JsonObject& config, uint64_t layers,
                                                 std::span<const std::string_view> others) {
  std::vector<bool> attends(layers, false);
  const bool each = config.find("layer_types").has_value();
  if (!each && !config.find("full_attn_idxs")) return std::vector<bool>(layers, true);
  const char* const field = each ? "layer_types" : "full_attn_idxs";
  KVICK_TRY(const simdjson::dom::array entries, config.get_array(field));
  if (each && entries.size() != layers)
    return base::fail("{} names {} layers, but there are {}", config.label(field), entries.size(),
                      layers);
  size_t at = 0;
  for (const Json entry : entries) {
    std::string_view name;
    uint64_t layer = 0;
    if (each) {
      const bool known = entry.get(name) == simdjson::SUCCESS;
      const bool attending = name == "full_attention" || name == "attention";
      if (!known || (!attending && std::ranges::find(others, name) == others.end()))
        return base::fail("{} must hold 'full_attention' or '{}'", config.label(field),
                          others.front());
      attends[at++] = attending;
    } else {
      if (entry.get(layer) != simdjson::SUCCESS || layer >= layers)
        return base::fail("{} must hold numbers of the {} layers", config.label(field), layers);
      attends[layer] = true;
    }
  }
  return attends;
}

Status<> map_kv_heads(Mapper& map, std::span<const std::string_view> others) {
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  KVICK_TRY(const uint64_t heads, map.size("num_attention_heads"));
  KVICK_TRY(const uint64_t kv_heads, map.size("num_key_value_heads", heads));
  KVICK_TRY(const std::vector<bool> attends, attending_layers(map.config(), layers, others));
  std::vector<uint64_t> of_layers;
  for (const bool one : attends) of_layers.push_back(one ? kv_heads : 0);
  map.set("attention.head_count_kv", std::move(of_layers));
  return base::Done{};
}

Status<> map_short_convs(Mapper& map) {
  static constexpr std::string_view kOthers[] = {"conv"};
  KVICK_TRY_VOID(map.require_flag("conv_bias", false));
  KVICK_TRY(const uint64_t kernel, map.size("conv_L_cache", 3));
  map.set("shortconv.l_cache", kernel);
  KVICK_TRY(const double epsilon, positive(map.config(), "norm_eps", 1e-5));
  map.set("attention.layer_norm_rms_epsilon", epsilon);
  return map_kv_heads(map, kOthers);
}

// The feed-forward width is two thirds of the width in the file, times a factor, rounded up.
Status<> map_lfm2(Mapper& map) {
  KVICK_TRY_VOID(map_short_convs(map));
  const JsonObject& config = map.config();
  const char* const field = config.find("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  KVICK_TRY(uint64_t width, map.size(field));
  KVICK_TRY(const bool adjusted, config.get_bool("block_auto_adjust_ff_dim", true));
  if (adjusted) {
    KVICK_TRY(const double factor, positive(config, "block_ffn_dim_multiplier", 1));
    KVICK_TRY(const uint64_t unit, map.size("block_multiple_of", 256));
    const double scaled = factor * static_cast<double>(2 * width / 3);
    const auto whole = static_cast<uint64_t>(std::min(scaled, static_cast<double>(kMaxSize)));
    width = (whole + unit - 1) / unit * unit;
  }
  map.set("feed_forward_length", width);
  return base::Done{};
}

Status<> map_lfm2_moe(Mapper& map) {
  KVICK_TRY_VOID(map_short_convs(map));
  KVICK_TRY_VOID(map.copy_size("num_experts", "expert_count"));
  KVICK_TRY_VOID(map.copy_size("num_experts_per_tok", "expert_used_count"));
  KVICK_TRY_VOID(map.copy_size("moe_intermediate_size", "expert_feed_forward_length"));
  KVICK_TRY(const bool normalised, map.config().get_bool("norm_topk_prob", true));
  map.set("expert_weights_norm", normalised);
  KVICK_TRY(const double scale, positive(map.config(), "routed_scaling_factor", 1));
  map.set("expert_weights_scale", scale);
  return base::Done{};
}

// Accepts the published folders. In these, gate and up are one matrix, and one norm covers the
// whole output of a state.
Status<> map_mamba_layers(Mapper& map) {
  static constexpr std::string_view kOthers[] = {"linear_attention", "mamba"};
  const JsonObject& config = map.config();
  KVICK_TRY(const uint64_t experts, config.get_uint("num_local_experts", 8));
  KVICK_TRY(const uint64_t groups, config.get_uint("mamba_n_groups", 1));
  if (groups != 1)
    return base::fail("{} is {}; kvick reads folders of 1 group, and others from GGUF files",
                      config.label("mamba_n_groups"), groups);
  KVICK_TRY_VOID(map.require_flag("mamba_proj_bias", false));
  KVICK_TRY_VOID(require_free_steps(config));
  KVICK_TRY_VOID(map_kv_heads(map, kOthers));
  const std::string_view shared = "shared_intermediate_size";
  if (experts == 0) {
    KVICK_TRY_VOID(map.copy_size(shared, "feed_forward_length"));
  } else {  // feed_forward_length is the width of each, from intermediate_size
    KVICK_TRY(const uint64_t used, map.size("num_experts_per_tok"));
    map.set("expert_count", experts);
    map.set("expert_used_count", used);
    KVICK_TRY_VOID(map.copy_size(shared, "expert_shared_feed_forward_length"));
  }
  KVICK_TRY(const uint64_t heads, map.size("mamba_n_heads", 128));
  KVICK_TRY(const uint64_t width, map.size("hidden_size"));
  KVICK_TRY(const uint64_t expand, map.size("mamba_expand", 2));
  KVICK_TRY(const uint64_t kernel, map.size("mamba_d_conv", 4));
  KVICK_TRY(const uint64_t size, map.size("mamba_d_state", 256));
  map.set("ssm.conv_kernel", kernel);
  map.set("ssm.state_size", size);
  map.set("ssm.group_count", groups);
  map.set("ssm.time_step_rank", heads);
  map.set("ssm.inner_size", expand * width);
  KVICK_TRY(const std::string positions, config.get_string("position_embedding_type", "nope"));
  map.set("rope.scaling.finetuned", positions == "rope");
  return base::Done{};
}

Status<> map_granite_hybrid(Mapper& map) {
  KVICK_TRY_VOID(map_granite(map));
  return map_mamba_layers(map);
}

constexpr Rename kFalconH1[] = {
    {"pre_ff_layernorm", "ffn_norm"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {"mamba.in_proj", "ssm_in"},
    {"mamba.conv1d", "ssm_conv1d"},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.A_log", "ssm_a_log"},
    {"mamba.D", "ssm_d"},
    {"mamba.norm", "ssm_norm"},
    {"mamba.out_proj", "ssm_out"},
};

// The sizes of Falcon-H1's states.
struct FalconStates {
  uint64_t inner = 0, heads = 0, groups = 0, size = 0;
};
base::Result<FalconStates> falcon_states(const Mapper& map) {
  FalconStates out;
  KVICK_TRY(const uint64_t width, map.size("hidden_size"));
  KVICK_TRY(const uint64_t expand, map.size("mamba_expand", 2));
  KVICK_TRY(out.inner, map.size("mamba_d_ssm", expand * width));
  KVICK_TRY(out.heads, map.size("mamba_n_heads", 128));
  KVICK_TRY(out.groups, map.size("mamba_n_groups", 1));
  KVICK_TRY(out.size, map.size("mamba_d_state", 256));
  return out;
}

// Reads a list of factors; all are 1 if the file has none.
template <size_t kCount>
base::Result<std::array<double, kCount>> factor_list(const Mapper& map, std::string_view field) {
  std::array<double, kCount> out;
  out.fill(1);
  if (!map.config().find(field)) return out;
  KVICK_TRY(const simdjson::dom::array list, map.config().get_array(field));
  bool fits = list.size() == kCount;
  size_t at = 0;
  for (const Json entry : list) fits = fits && entry.get(out[at++]) == simdjson::SUCCESS;
  if (fits) return out;
  return base::fail("{} must hold {} numbers", map.config().label(field), kCount);
}

// The factors of attention's inputs go into the scale of scores and its outputs, so that most of
// its matrices keep their type.
Status<> map_falcon_scale(Mapper& map) {
  const JsonObject& config = map.config();
  KVICK_TRY(const double in, positive(config, "attention_in_multiplier", 1));
  KVICK_TRY(const double key, positive(config, "key_multiplier", 1));
  KVICK_TRY(const uint64_t width, map.size("hidden_size"));
  KVICK_TRY(const uint64_t heads, map.size("num_attention_heads"));
  KVICK_TRY(const uint64_t dim, map.size("head_dim", width / heads));
  map.set("attention.scale", in * in * key / std::sqrt(static_cast<double>(dim)));
  return base::Done{};
}

Status<> map_falcon_h1(Mapper& map) {
  for (const std::string_view field :
       {"attention_bias", "mlp_bias", "projectors_bias", "mamba_proj_bias"})
    KVICK_TRY_VOID(map.require_flag(field, false));
  KVICK_TRY_VOID(map.require_flag("mamba_use_mlp", true));
  KVICK_TRY_VOID(require_free_steps(map.config()));
  KVICK_TRY(const bool normalises, map.config().get_bool("mamba_rms_norm", false));
  KVICK_TRY(const bool early, map.config().get_bool("mamba_norm_before_gate", true));
  if (normalises && early)
    return base::fail("{} is true; kvick normalises the output of a state after its gate only",
                      map.config().label("mamba_norm_before_gate"));
  KVICK_TRY(const FalconStates states, falcon_states(map));
  KVICK_TRY(const uint64_t kernel, map.size("mamba_d_conv", 4));
  map.set("ssm.conv_kernel", kernel);
  map.set("ssm.inner_size", states.inner);
  map.set("ssm.time_step_rank", states.heads);
  map.set("ssm.group_count", states.groups);
  map.set("ssm.state_size", states.size);
  KVICK_TRY(const double logits, positive(map.config(), "lm_head_multiplier", 1));
  map.set("logit_scale", 1 / logits);  // GGUF's divides
  KVICK_TRY_VOID(copy_positive(map, "embedding_multiplier", "embedding_scale"));
  return map_falcon_scale(map);
}

base::Result<std::vector<ModuleFactors>> falcon_factors(const Mapper& map) {
  const JsonObject& config = map.config();
  KVICK_TRY(const FalconStates states, falcon_states(map));
  KVICK_TRY(const double attention_in, positive(config, "attention_in_multiplier", 1));
  KVICK_TRY(const double attention_out, positive(config, "attention_out_multiplier", 1));
  KVICK_TRY(const double state_in, positive(config, "ssm_in_multiplier", 1));
  KVICK_TRY(const double state_out, positive(config, "ssm_out_multiplier", 1));
  using Two = std::array<double, 2>;
  using Five = std::array<double, 5>;
  KVICK_TRY(const Two wide, factor_list<2>(map, "mlp_multipliers"));
  KVICK_TRY(const Five parts, factor_list<5>(map, "ssm_multipliers"));
  const uint64_t shared = states.groups * states.size;
  const std::array<uint64_t, 5> sizes = {states.inner, states.inner, shared, shared, states.heads};
  std::vector<RowFactor> of_state;
  for (size_t i = 0; i < sizes.size(); ++i)
    of_state.push_back({static_cast<float>(state_in * parts[i]), sizes[i]});
  const auto whole = [](double factor) {
    return std::vector<RowFactor>{{.factor = static_cast<float>(factor)}};
  };
  return std::vector<ModuleFactors>{{"attn_output", whole(attention_in * attention_out)},
                                    {"ssm_in", std::move(of_state)},
                                    {"ssm_out", whole(state_out)},
                                    {"ffn_gate", whole(wide[0])},
                                    {"ffn_down", whole(wide[1])}};
}

constexpr HfFamily kFamilies[] = {
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
    HfFamily{.model_type = "granitemoehybrid",
             .architecture = "granitehybrid",
             .modules = kGraniteHybrid,
             .expert_modules = kGraniteHybridMoe,
             .map = map_granite_hybrid},
    HfFamily{.model_type = "falcon_h1",
             .architecture = "falcon-h1",
             .modules = kFalconH1,
             .map = map_falcon_h1,
             .grouped_norms = true,
             .factors = falcon_factors},
};

}  // namespace

// Refuses a limit on the steps of a state.
Status<> require_free_steps(const JsonObject& config) {
  if (!config.find("time_step_limit")) return base::Done{};
  KVICK_TRY(const simdjson::dom::array limits, config.get_array("time_step_limit"));
  size_t at = 0;
  for (const Json limit : limits) {
    double number = 0;
    const bool finite = limit.get(number) == simdjson::SUCCESS;  // "Infinity" is a string or object
    if (at == 0 ? !finite || number != 0 : finite || at > 1)
      return base::fail(
          "{} limits the steps of states, which kvick does not support; it knows 0 to "
          "Infinity",
          config.label("time_step_limit"));
    ++at;
  }
  return base::Done{};
}

std::span<const HfFamily> state_families() { return kFamilies; }

}  // namespace kvick::io
