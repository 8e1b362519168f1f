#include "model/core/config.h"

#include <algorithm>
#include <cmath>

namespace kvick::model {

LayerConfig LayerConfig::attention(uint32_t heads, uint32_t kv_heads, uint32_t head_dim) {
  return {.heads = heads,
          .kv_heads = kv_heads,
          .k_dim = head_dim,
          .v_dim = head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(head_dim))};
}

double ExpertsConfig::share_read(double tokens) const {
  if (count == 0) return 0;
  return 1 - std::pow(1 - double{1} * used / count, tokens);
}

float QueryTemperature::at(uint32_t position) const {
  const double steps = std::floor((double{1} * position + offset) / floor);
  return static_cast<float>(1 + scale * std::log(steps + 1));
}

const Rope& Config::rope_of(uint32_t layer) const {
  static const Rope kNothing;
  const uint32_t rope = layers[layer].rope;
  return rope == LayerConfig::kNone ? kNothing : ropes[rope];
}

const Rope& Config::rope_of_full() const {
  for (uint32_t layer = 0; layer < layer_count(); ++layer)
    if (layers[layer].attends() && layers[layer].window == 0) return rope_of(layer);
  return rope_of(static_cast<uint32_t>(&heads_layer() - layers.data()));
}

const LayerConfig& Config::heads_layer() const {
  const auto found = std::ranges::find_if(layers, &LayerConfig::attends);
  return found != layers.end() ? *found : layers.front();
}

bool Config::keeps_states() const {
  return std::ranges::any_of(
      layers, [](const LayerConfig& layer) { return layer.kind == LayerConfig::Kind::kState; });
}

bool Config::windows_alike() const {
  return std::all_of(layers.begin(), layers.end(), [&](const LayerConfig& layer) {
    return layer.window == layers.front().window && layer.chunked == layers.front().chunked;
  });
}

bool Config::layers_alike() const {
  const LayerConfig& first = layers.front();
  return std::all_of(layers.begin(), layers.end(), [&](const LayerConfig& layer) {
    return layer.kind == first.kind && layer.attends() && layer.owns_rows() &&
           layer.heads == first.heads && layer.kv_heads == first.kv_heads &&
           layer.k_dim == first.k_dim && layer.v_dim == first.k_dim;
  });
}

}  // namespace kvick::model
