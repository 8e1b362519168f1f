#include "model/core/model.h"

#include <string>

#include "kv/strategy/strategy.h"

namespace kvick::model {
uint32_t Batch::tokens() const {
  size_t tokens = 0;
  for (const Slot& slot : slots) tokens += slot.tokens.size();
  return static_cast<uint32_t>(tokens);
}

std::vector<kv::Slot> kv_slots(const Batch& batch) {
  std::vector<kv::Slot> slots;
  slots.reserve(batch.slots.size());
  for (const Slot& slot : batch.slots)
    slots.push_back({.seq = slot.seq,
                     .fresh = static_cast<uint32_t>(slot.tokens.size()),
                     .tokens = slot.reusable ? slot.tokens : std::span<const Token>(),
                     .whole = slot.parents.empty(),
                     .reads_all = slot.prompt});
  return slots;
}

void set_layers(const Config& config, kv::Setup& setup) {
  kv::Shape& shape = setup.shape;
  if (shape.max_tokens == 0) shape.max_tokens = config.context;
  if (!config.layers_alike() || !config.windows_alike() || config.both_ways()) {
    setup.layers = kv_layers(config);
    return;
  }
  const LayerConfig& layer = config.layers.front();
  shape.layers = config.layer_count();
  shape.kv_heads = layer.kv_heads;
  shape.head_dim = layer.k_dim;
  // A window as long as the context hides nothing, so it counts as none.
  const bool hides = layer.window < shape.max_tokens;
  shape.window = hides ? layer.window : 0;
  shape.chunked = hides && layer.chunked;
}

kv::Shape Model::kv_shape(kernels::DType k_type, kernels::DType v_type, uint32_t max_tokens) const {
  KVICK_CHECK(config_.layers_alike() && config_.windows_alike(),
              "one shape of rows for the {} layers of {}", config_.layer_count(), config_.name);
  kv::Setup setup = {.shape = {.max_tokens = max_tokens, .k_type = k_type, .v_type = v_type}};
  set_layers(config_, setup);
  return setup.shape;
}

namespace {

kv::LayerSpec::Keeps keeps_of(const LayerConfig& layer) {
  using Keeps = kv::LayerSpec::Keeps;
  switch (layer.kind) {
    case LayerConfig::Kind::kAttention:
      if (!layer.owns_rows() || layer.both_ways) return Keeps::kNothing;
      return layer.is_latent() ? Keeps::kLatent : Keeps::kRows;
    case LayerConfig::Kind::kSlots:
      return Keeps::kSlots;
    case LayerConfig::Kind::kState:
      return Keeps::kState;
    case LayerConfig::Kind::kFeedForward:
      return Keeps::kNothing;
  }
  KVICK_CHECK(false, "layers of kind {}", static_cast<int>(layer.kind));
}

}  // namespace

std::vector<kv::LayerSpec> kv_layers(const Config& config) {
  std::vector<kv::LayerSpec> specs;
  for (const LayerConfig& layer : config.layers)
    specs.push_back({.keeps = keeps_of(layer),
                     .kv_heads = layer.kv_heads,
                     .k_dim = layer.k_dim,
                     .v_dim = layer.v_dim,
                     .group = layer.group(),
                     .window = layer.window,
                     .chunked = layer.chunked,
                     .rows_of = layer.rows_of,
                     .state_bytes = layer.kind == LayerConfig::Kind::kState
                                        ? layer.state.floats() * sizeof(float)
                                        : 0});
  return specs;
}

}  // namespace kvick::model
