#pragma once
// What policies compute with.

#include <span>

#include "kernels/table/table.h"
#include "kv/strategy/strategy.h"

namespace kvick::kv {

inline const kernels::Table& kernels_of(const Setup& setup) {
  return setup.compute.kernels != nullptr ? *setup.compute.kernels
                                          : kernels::table(base::Isa::kScalar);
}

// A key of a segment as floats, as it is stored.
inline void read_key(const kernels::Segment& segment, const std::byte* key, std::span<float> out) {
  kernels::to_f32(segment.k_type, key, out.size(), out.data());
  if (segment.k_scale != 1)
    for (float& x : out) x *= segment.k_scale;
}

// Applies the Hadamard transform with this block size (Shape::hadamard) to a head's key or query,
// or undoes it: the transform is its own inverse. block 0: no change.
inline void transform(const kernels::Table& kernels, uint32_t block, std::span<float> head) {
  if (block != 0) kernels.hadamard(head.data(), head.size(), block);
}

// out[i] = dot product of q and the i-th key of the segment's runs, for all of its rows.
void dot_keys(const kernels::Table& kernels, const kernels::Segment& segment,
              std::span<const float> q, std::span<float> out);

// What makes logits of a query's dot products, as kernels::Queries has it.
struct LogitRule {
  float scale = 1, softcap = 0;
  const float* sink = nullptr;  // of this query's head, or null
};
// Makes a query's dot products exp(logit - largest logit); returns the sum that the softmax divides
// them by.
float softmax_weights(const kernels::Table& kernels, std::span<float> dots, const LogitRule& rule);

// sum += a value of a segment.
void add_value(const kernels::Segment& segment, const std::byte* value, std::span<float> scratch,
               std::span<float> sum);

}  // namespace kvick::kv
