#pragma once
// What strategies may have to know of a model beside the shape of its rows.

#include <cstdint>
#include <span>

#include "kernels/formats/matrix.h"

namespace kvick::kv {

// What a model that was trained with a memory of slots (architecture bct) brings to its store; the
// model keeps it alive.
struct Memory {
  uint32_t slots = 0;
  float scale = 1;  // of the products of queries, and of write queries, with keys
  // [layers][kv_heads] matrices of `slots` rows, F32, F16 or BF16; inputs past head_dim are zero.
  std::span<const kernels::Matrix> keys;
  // [layers][kv_heads][slots][head_dim], the values before the first token; empty: zeros.
  std::span<const float> initial;
  // Floats of each layer that the model keeps of a sequence's last token (Step::carry).
  uint32_t carried = 0;
};

// How a model rotates queries and keys by their positions (rotary embedding): pair i by
// position * frequency[i]. Empty: it does not.
struct Rotation {
  std::span<const double> frequency = {};  // [dims / 2]
  uint32_t dims = 0;                       // of a head, from its first
  bool interleaved = false;                // pairs as of kernels::Table::rope
};

}  // namespace kvick::kv
