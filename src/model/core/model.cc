#include "model/core/model.h"

#include <string>

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
                     .whole = slot.parents.empty()});
  return slots;
}

kv::Shape Model::kv_shape(kernels::DType k_type, kernels::DType v_type, uint32_t max_tokens) const {
  KVICK_CHECK(config_.layers_alike(), "one shape of rows for the {} layers of {}",
              config_.layer_count(), config_.name);
  const uint32_t tokens = max_tokens != 0 ? max_tokens : config_.context;
  // One that is as long as the context hides nothing; where windows differ all rows are kept.
  const uint32_t window = config_.windows_alike() ? config_.layers.front().window : 0;
  return {.layers = config_.layer_count(),
          .kv_heads = config_.layers.front().kv_heads,
          .head_dim = config_.layers.front().k_dim,
          .max_tokens = tokens,
          .k_type = k_type,
          .v_type = v_type,
          .window = window < tokens ? window : 0,
          .chunked = window < tokens && config_.layers.front().chunked};
}

std::vector<kv::LayerSpec> Model::kv_layers() const {
  using Keeps = kv::LayerSpec::Keeps;
  std::vector<kv::LayerSpec> specs;
  for (const LayerConfig& layer : config_.layers)
    specs.push_back({.keeps = layer.kind == LayerConfig::Kind::kSlots ? Keeps::kSlots
                              : layer.owns_rows()                     ? Keeps::kRows
                                                                      : Keeps::kNothing,
                     .kv_heads = layer.kv_heads,
                     .k_dim = layer.k_dim,
                     .v_dim = layer.v_dim,
                     .group = layer.group(),
                     .window = layer.window,
                     .chunked = layer.chunked,
                     .rows_of = layer.rows_of});
  return specs;
}

}  // namespace kvick::model
