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

// A head's key or query as it was before the Hadamard transform of such blocks (Shape::hadamard),
// or after it: one is the other's inverse. 0: it stays.
inline void transform(const kernels::Table& kernels, uint32_t block, std::span<float> head) {
  if (block != 0) kernels.hadamard(head.data(), head.size(), block);
}

// out[i] = the product of q with the i-th key of a segment's runs, as many as there are.
void dot_keys(const kernels::Table& kernels, const kernels::Segment& segment,
              std::span<const float> q, std::span<float> out);
// sum += a value of a segment.
void add_value(const kernels::Segment& segment, const std::byte* value, std::span<float> scratch,
               std::span<float> sum);

}  // namespace kvick::kv
