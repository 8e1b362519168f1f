#pragma once
// What a model's layers keep.

#include <cstdint>
#include <span>
#include <vector>

namespace kvick::kv {

// What one layer keeps of a token.
struct LayerSpec {
  enum class Keeps : uint8_t {
    kRows,    // keys and values
    kLatent,  // one row of k_dim elements; its first v_dim are the value (MLA)
    kState,   // state_bytes per sequence, whatever its length
    kSlots,   // the slots of the Bounded-Cache Transformer
    // The layer reads the rows of another layer (Gemma 3n and 4) or only the step's own rows
    // (encoders), or does not attend.
    kNothing,
  };
  Keeps keeps = Keeps::kRows;
  uint32_t kv_heads = 0, k_dim = 0, v_dim = 0;
  uint32_t group = 1;             // query heads that share a KV head
  uint32_t window = 0;            // tokens that a query sees, itself included; 0: all
  bool chunked = false;           // the window restarts at multiples of its size (Llama 4)
  uint32_t rows_of = UINT32_MAX;  // kNothing: the layer whose rows are read, if it reads any
  uint64_t state_bytes = 0;       // kState

  bool operator==(const LayerSpec&) const = default;
};

// Layers with equal specs, kept by one store. Layer i of the store is the model's layer layers[i].
struct LayerGroup {
  LayerSpec spec;
  std::vector<uint32_t> layers;  // ascending
};
// Returns the groups in the order of their first layers, without the layers that keep nothing.
std::vector<LayerGroup> groups_of(std::span<const LayerSpec> layers);

}  // namespace kvick::kv
