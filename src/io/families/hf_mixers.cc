// Models whose layers are one block each: Nemotron-H and Mamba-2.

#include <algorithm>
#include <utility>
#include <vector>

#include "io/families/hf_parts.h"

namespace kvick::io {
namespace {

using base::Status;

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
  KVICK_TRY_VOID(map_layer_count(map));
  map.set("context_length", kContext);
  for (const char* key : {"attention.head_count", "attention.head_count_kv", "feed_forward_length"})
    map.set(key, uint64_t{0});
  KVICK_TRY(const double epsilon, positive(map.config(), "layer_norm_epsilon", 1e-5));
  map.set("attention.layer_norm_rms_epsilon", epsilon);
  return map_state_sizes(map, {"num_heads", "head_dim", "state_size"});
}

constexpr HfFamily kFamilies[] = {
    HfFamily{.model_type = "nemotron_h",
             .architecture = "nemotron_h",
             .modules = kMixers,
             .map_all = map_nemotron_h,
             .grouped_norms = true},
    HfFamily{.model_type = "mamba2",
             .architecture = "mamba2",
             .modules = kMixers,
             .map_all = map_mamba2,
             .grouped_norms = true},
};

}  // namespace

base::Result<bool> nemotron_has_experts(const JsonObject& config) {
  KVICK_TRY(const std::vector<Block> blocks, nemotron_blocks(config));
  return std::ranges::find(blocks, kExperts) != blocks.end();
}

std::span<const HfFamily> one_block_families() { return kFamilies; }

}  // namespace kvick::io
