// Finds the layers that keep a state, by the numbers of heads as GGUF has them, and the states'
// sizes.

#include "model/families/family.h"
#include "model/families/read_config.h"
#include "model/states/state_block.h"

namespace kvick::model {
namespace {

using base::fail;
using base::Result;

constexpr uint64_t kMostKernel = 64, kMostInner = 1 << 20, kMostHeads = 1 << 14,
                   kMostState = 1 << 12;

Result<uint32_t> read_kernel(const io::ModelFile& file, const std::string& key) {
  KVICK_TRY(const uint32_t kernel, bounded_number(file, key, kMostKernel));
  if (kernel == 1)
    return fail("{}: {} is 1, but a convolution over one token alone is none", file.path(), key);
  return kernel;
}

Result<StateConfig> read_mamba2_numbers(const io::ModelFile& file, const std::string& arch) {
  const std::string prefix = arch + ".ssm.";
  StateConfig state = {.kind = StateConfig::Kind::kMamba2};
  KVICK_TRY(state.conv_kernel, read_kernel(file, prefix + "conv_kernel"));
  KVICK_TRY(const uint32_t inner, bounded_number(file, prefix + "inner_size", kMostInner));
  KVICK_TRY(state.heads, bounded_number(file, prefix + "time_step_rank", kMostHeads));
  KVICK_TRY(state.groups, bounded_number(file, prefix + "group_count", state.heads, 1));
  KVICK_TRY(state.state_size, bounded_number(file, prefix + "state_size", kMostState));
  if (inner % state.heads != 0 || state.heads % state.groups != 0)
    return fail("{}: {}inner_size is {}, which {} heads in {} groups cannot share evenly",
                file.path(), prefix, inner, state.heads, state.groups);
  state.head_dim = inner / state.heads;
  state.conv_channels = inner + 2 * state.groups * state.state_size;
  return state;
}

void keep_state(const StateConfig& state, LayerConfig& layer) {
  layer.kind = LayerConfig::Kind::kState;
  layer.heads = layer.kv_heads = 0;
  layer.state = state;
}

// Reads the numbers of a gated delta net. Refuses sizes that the kernels do not take.
Result<StateConfig> read_delta_numbers(const io::ModelFile& file, const std::string& arch) {
  KVICK_TRY(StateConfig state, read_mamba2_numbers(file, arch));
  constexpr uint32_t kKeys = 8, kValues = kernels::kDeltaPanel;
  if (state.state_size % kKeys != 0 || state.head_dim % kValues != 0)
    return fail(
        "{}: {}.ssm says that keys have {} elements and values {}; kvick takes multiples of {} and "
        "{}",
        file.path(), arch, state.state_size, state.head_dim, kKeys, kValues);
  state.kind = StateConfig::Kind::kGatedDelta;
  // GGUF files of Qwen3.5 order the heads differently from all other files.
  KVICK_TRY(state.tiled, file.get_bool("kvick.ssm.tiled", arch != "qwen3next"));
  return state;
}

// Returns which layers keep a state: those that the file lists, or all but the last of each period.
Result<std::vector<bool>> delta_layers(const io::ModelFile& file, const std::string& arch,
                                       uint32_t layers) {
  constexpr uint64_t kMostPeriod = 1024;
  const std::string key = arch + ".attention.recurrent_layers";
  std::vector<bool> kept(layers);
  if (file.metadata().contains(key)) {
    KVICK_TRY(const std::vector<uint64_t> flags, file.get_uint_each(key, layers));
    for (uint32_t i = 0; i < layers; ++i) kept[i] = flags[i] != 0;
    return kept;
  }
  KVICK_TRY(const uint32_t period,
            bounded_number(file, arch + ".full_attention_interval", kMostPeriod, 4));
  for (uint32_t i = 0; i < layers; ++i) kept[i] = (i + 1) % period != 0;
  return kept;
}

}  // namespace

base::Status<> read_short_conv_states(const io::ModelFile& file, Config& config) {
  StateConfig state = {.kind = StateConfig::Kind::kShortConv, .conv_channels = config.dim};
  KVICK_TRY(state.conv_kernel, read_kernel(file, config.arch + ".shortconv.l_cache"));
  for (LayerConfig& layer : config.layers)
    if (layer.kv_heads == 0) keep_state(state, layer);
  return base::Done{};
}

base::Status<> read_mamba2_states(const io::ModelFile& file, Config& config) {
  KVICK_TRY(const StateConfig state, read_mamba2_numbers(file, config.arch));
  for (LayerConfig& layer : config.layers)
    if (layer.kv_heads == 0) keep_state(state, layer);
  return base::Done{};
}

// Each layer has one block: feed-forward if it has a width, otherwise attention or a state.
base::Status<> read_nemotron_states(const io::ModelFile& file, Config& config) {
  KVICK_TRY(const StateConfig state, read_mamba2_numbers(file, config.arch));
  for (LayerConfig& layer : config.layers) {
    if (layer.ffn > 0) {
      layer.kind = LayerConfig::Kind::kFeedForward;
      layer.heads = layer.kv_heads = 0;
    } else if (layer.kv_heads == 0) {
      keep_state(state, layer);
    }
  }
  return base::Done{};
}

// Each layer of the model keeps rows and a state, but a store keeps one of them per layer. So the
// config has two layers for each: those for the states follow the model's layers and have no blocks
// of their own.
base::Status<> read_falcon_states(const io::ModelFile& file, Config& config) {
  Config states = config;
  for (LayerConfig& layer : states.layers) layer.kv_heads = 0;
  KVICK_TRY_VOID(read_mamba2_states(file, states));
  for (LayerConfig& layer : states.layers) layer.ffn = 0;
  config.layers.insert(config.layers.end(), states.layers.begin(), states.layers.end());
  return base::Done{};
}

base::Result<Layer> read_falcon_layer(const BlockReader& reader, const Family& family, Parts&) {
  if (reader.numbers().kind == LayerConfig::Kind::kState) return Layer();
  BlockReader of_state = reader;
  of_state.layer = reader.layer + reader.config.layer_count() / 2;
  of_state.named = reader.layer;
  KVICK_TRY(std::unique_ptr<Block> state, read_state_block(of_state));
  KVICK_TRY(std::unique_ptr<Block> attention, SelfAttention::read(reader, family.attention));
  Layer layer(2);
  layer[0] = side_by_side(std::move(state), std::move(attention));
  KVICK_TRY(layer[1], read_feed_forward(reader, family.feed_forward));
  return layer;
}

base::Status<> read_delta_states(const io::ModelFile& file, Config& config) {
  KVICK_TRY(const StateConfig state, read_delta_numbers(file, config.arch));
  KVICK_TRY(const std::vector<bool> kept, delta_layers(file, config.arch, config.layer_count()));
  KVICK_TRY(const uint32_t drafting, drafting_blocks(file, config));
  for (uint32_t i = 0; i < config.layer_count() - drafting; ++i)
    if (kept[i]) keep_state(state, config.layers[i]);
  return base::Done{};
}

}  // namespace kvick::model
