#pragma once
// What strategies need to know about a model besides the shape of its rows.

#include <cstdint>
#include <span>

#include "kernels/formats/matrix.h"

namespace kvick::kv {

// What a model trained with memory slots (architecture bct) gives to its store. The model owns the
// memory.
struct Slots {
  uint32_t slots = 0;
  float scale = 1;  // factor on the products of queries, and of write queries, with keys
  // [layers][kv_heads] matrices of `slots` rows, F32, F16 or BF16; inputs past head_dim are zero.
  std::span<const kernels::Matrix> keys;
  // [layers][kv_heads][slots][head_dim]: the slots' values before the first token; empty: zeros.
  std::span<const float> initial;
  // Floats per layer that the model keeps of a sequence's last token (SlotReader::carry).
  uint32_t carried = 0;
};

// Rotary embedding: how a model rotates queries and keys by position. Pair i turns by the angle
// position * frequency[i]. Without frequencies the model does not rotate.
struct Rotation {
  std::span<const double> frequency = {};  // [dims / 2]
  uint32_t dims = 0;                       // rotated elements at the start of a head
  bool interleaved = false;                // how elements form pairs: see kernels::Table::rope
};

}  // namespace kvick::kv
