// Gemma 3n and 4.

#include <algorithm>
#include <cmath>

#include "model/families/family.h"
#include "model/families/read_config.h"
#include "model/streams/altup.h"
#include "model/streams/layer_inputs.h"

namespace kvick::model {
namespace {

using base::fail;

constexpr uint64_t kMostLayerInputs = 1 << 16;

// Configures the traits that both share: attention without a scale, and per-layer inputs if the
// file has them.
base::Status<> configure_both(const io::ModelFile& file, Config& config) {
  KVICK_TRY_VOID(scale_embedding_by_width(file, config));
  for (LayerConfig& layer : config.layers) layer.scale = 1;
  const std::string key = config.arch + ".embedding_length_per_layer_input";
  KVICK_TRY(const uint64_t inputs, file.get_uint(key, 0));
  if (inputs > kMostLayerInputs)
    return fail("{}: {} is {}, but may be {} at most", file.path(), key, inputs, kMostLayerInputs);
  config.layer_inputs = static_cast<uint32_t>(inputs);
  return base::Done{};
}

// Files older than the key lack it; all models were trained with the same value.
base::Status<> read_sparsity(const io::ModelFile& file, Config& config) {
  constexpr uint32_t kSparse = 10;
  constexpr float kDeviations = 1.6448533F;  // 95 % of a normal distribution lie below
  const std::string key = config.arch + ".activation_sparsity_scale";
  const std::vector<float>* const each = file.get_floats(key);
  if (each != nullptr && each->size() != config.layer_count())
    return fail("{}: {} has {} values for {} layers", file.path(), key, each->size(),
                config.layer_count());
  for (uint32_t i = 0; i < config.layer_count(); ++i) {
    float deviations = i < kSparse ? kDeviations : 0;
    if (each != nullptr) deviations = (*each)[i];
    // Keeping a share of 0 out is written as minus infinity standard deviations.
    if (std::isnan(deviations))
      return fail("{}: {} of layer {} is not a number", file.path(), key, i);
    config.layers[i].sparsity = std::isfinite(deviations) ? std::max(0.0F, deviations) : 0;
  }
  return base::Done{};
}

}  // namespace

base::Status<> configure_gemma4(const io::ModelFile& file, Config& config) {
  const std::string pattern = config.arch + ".attention.sliding_window_pattern";
  if (!file.metadata().contains(pattern))
    return fail("{}: {} is missing, which says which layers have windows", file.path(), pattern);
  return configure_both(file, config);
}

base::Status<> configure_gemma3n(const io::ModelFile& file, Config& config) {
  const std::string prefix = config.arch + ".altup.";
  KVICK_TRY_VOID(configure_both(file, config));
  KVICK_TRY(config.streams, bounded_number(file, prefix + "num_inputs", kMostStreams, 4));
  KVICK_TRY(const uint64_t active, file.get_uint(prefix + "active_idx", 0));
  if (config.streams < 2 || active != 0 || config.layer_inputs == 0)
    return fail(
        "{}: {}num_inputs is {}, active_idx {} and embedding_length_per_layer_input {}; kvick runs "
        "several streams with the first one active, and layers with inputs",
        file.path(), prefix, config.streams, active, config.layer_inputs);
  return read_sparsity(file, config);
}

base::Status<> read_gemma_parts(const io::ModelFile&, WeightReader& weights, const Config& config,
                                Parts& parts) {
  const auto add = [](base::Result<std::unique_ptr<Block>> block, Layer& to) -> base::Status<> {
    KVICK_TRY(std::unique_ptr<Block> made, std::move(block));
    to.push_back(std::move(made));
    return base::Done{};
  };
  if (config.layer_inputs > 0)
    KVICK_TRY_VOID(add(read_layer_inputs(weights, config), parts.before));
  if (config.streams == 1) return base::Done{};
  KVICK_TRY_VOID(add(read_streams(weights, config), parts.before));
  return add(read_merge(weights, config), parts.behind);
}

base::Result<Layer> read_gemma3n_layer(const BlockReader& reader, const Family& family, Parts&) {
  Layer layer(4);
  KVICK_TRY(layer[0], read_predict(reader));
  KVICK_TRY(layer[1], read_laurel_attention(reader, family.attention));
  KVICK_TRY(layer[2], read_feed_forward(reader, family.feed_forward));
  KVICK_TRY(layer[3], read_correct(reader));
  return layer;
}

base::Result<Layer> read_gemma4_layer(const BlockReader& reader, const Family& family, Parts&) {
  Layer layer(2);
  KVICK_TRY(layer[0], SelfAttention::read(reader, family.attention));
  if (reader.numbers().experts.count > 0) {
    KVICK_TRY(layer[1], read_mixture(reader, family.mixture));
  } else {
    KVICK_TRY(layer[1], read_feed_forward(reader, family.feed_forward));
  }
  if (reader.config.layer_inputs > 0) {
    KVICK_TRY(layer.emplace_back(), read_layer_input(reader));
  }
  if (reader.has("layer_output_scale.weight")) {
    KVICK_TRY(layer.emplace_back(), read_output_scale(reader));
  }
  return layer;
}

}  // namespace kvick::model
