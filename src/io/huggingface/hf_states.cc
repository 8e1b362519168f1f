// Models with layers that keep a state (they have no KV heads): LFM2, Granite 4.0 H, Nemotron-H and
// Mamba-2.

#include <algorithm>
#include <span>
#include <utility>

#include "io/huggingface/hf_mapper.h"

namespace kvick::io {
namespace {

using base::Status;

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

struct StateFields {
  std::string_view heads, head_dim, size;
};
Status<> map_state_sizes(Mapper& map, const StateFields& fields) {
  KVICK_TRY_VOID(require_free_steps(map.config()));
  KVICK_TRY(const uint64_t heads, map.size(fields.heads));
  KVICK_TRY(const uint64_t head_dim, map.size(fields.head_dim));
  KVICK_TRY(const uint64_t kernel, map.size("conv_kernel", 4));
  KVICK_TRY(const uint64_t groups, map.size("n_groups", 8));
  map.set("ssm.time_step_rank", heads);
  map.set("ssm.inner_size", heads * head_dim);
  map.set("ssm.conv_kernel", kernel);
  map.set("ssm.group_count", groups);
  return map.copy_size(fields.size, "ssm.state_size");
}

// The block of each layer of Nemotron-H, by the letters of hybrid_override_pattern.
enum Block : char { kState = 'M', kAttention = '*', kFeedForward = '-', kExperts = 'E' };

base::Result<Block> named_block(const JsonObject& config, std::string_view field,
                                std::string_view name) {
  constexpr std::pair<std::string_view, Block> kNames[] = {
      {"M", kState},       {"mamba", kState},         {"linear_attention", kState},
      {"*", kAttention},   {"attention", kAttention}, {"full_attention", kAttention},
      {"-", kFeedForward}, {"mlp", kFeedForward},     {"E", kExperts},
      {"moe", kExperts}};
  for (const auto& [known, block] : kNames)
    if (known == name) return block;
  return base::fail("{} has a layer {}; kvick knows M, *, - and E (mamba, attention, mlp and moe)",
                    config.label(field), in_quotes(name));
}

// Files have a letter or a name for each layer.
base::Result<std::vector<Block>> nemotron_blocks(const JsonObject& config) {
  std::vector<Block> blocks;
  for (const std::string_view field : {"layers_block_type", "layer_types"}) {
    if (!config.find(field)) continue;
    KVICK_TRY(const simdjson::dom::array names, config.get_array(field));
    for (const Json entry : names) {
      std::string_view name;
      if (entry.get(name) != simdjson::SUCCESS)
        return base::fail("{} must hold names", config.label(field));
      KVICK_TRY(blocks.emplace_back(), named_block(config, field, name));
    }
    return blocks;
  }
  const char* const field = "hybrid_override_pattern";
  KVICK_TRY(const std::string letters, config.get_string(field));
  for (const char& letter : letters) {
    KVICK_TRY(blocks.emplace_back(), named_block(config, field, {&letter, 1}));
  }
  return blocks;
}

// Maps what each layer of Nemotron-H is: a width makes it a feed-forward block, KV heads make it
// attention.
Status<> map_nemotron_layers(Mapper& map, const std::vector<Block>& blocks) {
  const auto has = [&](Block block) { return std::ranges::find(blocks, block) != blocks.end(); };
  KVICK_TRY(const uint64_t heads, map.size("num_attention_heads"));
  KVICK_TRY(const uint64_t kv_heads, map.size("num_key_value_heads", heads));
  uint64_t width = 0, experts = 0;
  if (has(kFeedForward)) {
    KVICK_TRY(width, map.size("intermediate_size"));
  }
  if (has(kExperts)) {
    KVICK_TRY(experts, map.size("moe_intermediate_size"));
  }
  std::vector<uint64_t> kv, widths;
  for (const Block block : blocks) {
    kv.push_back(block == kAttention ? kv_heads : 0);
    widths.push_back(block == kFeedForward ? width : block == kExperts ? experts : 0);
  }
  map.set("block_count", uint64_t{blocks.size()});
  map.set("attention.head_count", heads);
  map.set("attention.head_count_kv", std::move(kv));
  map.set("feed_forward_length", std::move(widths));
  return base::Done{};
}

}  // namespace

base::Result<bool> nemotron_has_experts(const JsonObject& config) {
  KVICK_TRY(const std::vector<Block> blocks, nemotron_blocks(config));
  return std::ranges::find(blocks, kExperts) != blocks.end();
}

Status<> map_nemotron_h(Mapper& map) {
  const JsonObject& config = map.config();
  KVICK_TRY(const std::vector<Block> blocks, nemotron_blocks(config));
  if (blocks.empty() || blocks.size() > kMaxLayers)
    return base::fail("{}: {} layers; 1 to {} are allowed", config.name(), blocks.size(),
                      kMaxLayers);
  KVICK_TRY_VOID(map.copy_size("hidden_size", "embedding_length"));
  KVICK_TRY_VOID(map.copy_size("max_position_embeddings", "context_length"));
  KVICK_TRY_VOID(map_nemotron_layers(map, blocks));
  KVICK_TRY_VOID(map.require_name("mlp_hidden_act", "relu2"));
  KVICK_TRY_VOID(map.require_name("mamba_hidden_act", "silu"));
  const char* const dim = config.find("head_dim") ? "head_dim" : "attention_head_dim";
  for (const char* key : {"attention.key_length", "attention.value_length"})
    KVICK_TRY_VOID(map.copy_size(dim, key));
  KVICK_TRY(const double epsilon, positive(config, "layer_norm_epsilon", 1e-5));
  map.set("attention.layer_norm_rms_epsilon", epsilon);
  KVICK_TRY_VOID(map_state_sizes(map, {"mamba_num_heads", "mamba_head_dim", "ssm_state_size"}));
  KVICK_TRY(const bool experts, nemotron_has_experts(config));
  return experts ? map_nemotron_experts(map) : Status<>(base::Done{});
}

// GGUF's files have no heads and no widths either.
Status<> map_mamba2(Mapper& map) {
  constexpr uint64_t kContext = 1 << 20;  // as in llama.cpp's files: a state has no limit
  KVICK_TRY_VOID(map.copy_size("hidden_size", "embedding_length"));
  KVICK_TRY_VOID(map.require_name("hidden_act", "silu"));
  KVICK_TRY(const uint64_t layers, map.size("num_hidden_layers"));
  if (layers > kMaxLayers)
    return base::fail("{} is {}; at most {} are allowed", map.config().label("num_hidden_layers"),
                      layers, kMaxLayers);
  map.set("block_count", layers);
  map.set("context_length", kContext);
  for (const char* key : {"attention.head_count", "attention.head_count_kv", "feed_forward_length"})
    map.set(key, uint64_t{0});
  KVICK_TRY(const double epsilon, positive(map.config(), "layer_norm_epsilon", 1e-5));
  map.set("attention.layer_norm_rms_epsilon", epsilon);
  return map_state_sizes(map, {"num_heads", "head_dim", "state_size"});
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

}  // namespace kvick::io
