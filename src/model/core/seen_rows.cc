#include "model/core/seen_rows.h"

#include "kv/values/shape.h"

namespace kvick::model {
namespace {

kv::Shape shape_of(const LayerConfig& layer, const RowTypes& types) {
  return {.layers = 1,
          .kv_heads = layer.kv_heads,
          .head_dim = layer.k_dim,
          .k_type = types.k,
          .v_type = types.v,
          .v_dim = layer.v_dim,
          .window = layer.window,
          .chunked = layer.chunked};
}

}  // namespace

uint32_t seen_rows(const LayerConfig& layer, uint32_t tokens) {
  return shape_of(layer, {}).seen_rows(tokens);
}

uint64_t seen_bytes(const Config& config, const RowTypes& types, uint32_t tokens) {
  uint64_t bytes = 0;
  for (const LayerConfig& layer : config.layers)
    bytes += seen_rows(layer, tokens) * shape_of(layer, types).token_bytes();
  return bytes;
}

}  // namespace kvick::model
