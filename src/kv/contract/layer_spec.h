#pragma once

#include <cstdint>

namespace kvick::kv {

struct LayerSpec {  // what a layer keeps of a token
  enum class Keeps : uint8_t { kRows, kLatent, kState, kSlots, kNothing } keeps = Keeps::kRows;
  uint32_t kv_heads = 0, k_dim = 0, v_dim = 0;  // kLatent: one row of k_dim, its first v_dim
                                                // elements are the value
  uint32_t window = 0;                          // tokens that a query sees, itself included; 0: all
  bool chunked = false;                         // the window restarts at multiples of its size
  uint32_t rows_of = UINT32_MAX;                // kNothing: the layer whose rows are read
  uint64_t state_bytes = 0;                     // kState: of a sequence
};

}  // namespace kvick::kv
