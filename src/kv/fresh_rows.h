#pragma once
// Writing the fresh rows of a batch in the store's element types, wherever its strategy keeps them.

#include <algorithm>

#include "kv/checked.h"
#include "kv/ranges.h"

namespace kvick::kv {

// What Step::write takes.
struct LayerInput {
  uint32_t layer;
  const float *k, *v;
};

// One row of a head, whose static codes count 1 / inverse.
inline void write_row(const Setup& setup, bool is_v, float inverse, const float* in,
                      std::byte* out) {
  const kernels::DType type = is_v ? setup.shape.v_type : setup.shape.k_type;
  const uint32_t dims = setup.shape.head_dim;
  if (!kernels::is_static(type)) return setup.store_row(type, in, dims, out);
  constexpr uint32_t kMost = 256;
  float scaled[kMost];
  for (uint32_t begin = 0; begin < dims; begin += kMost) {
    const uint32_t n = std::min(kMost, dims - begin);
    for (uint32_t i = 0; i < n; ++i) scaled[i] = in[begin + i] * inverse;
    setup.store_row(type, scaled, n, out + kernels::dtype_bytes(type, begin));
  }
}

// at(slot, head, is_v, i) is where fresh row i of a slot goes; it is called from the threads of the
// setup's pool.
template <class At>
void write_fresh_rows(const Setup& setup, std::span<const Place> places, const LayerInput& input,
                      const At& at) {
  const Shape& shape = setup.shape;
  const size_t token = size_t{shape.kv_heads} * shape.head_dim;  // floats
  const auto write_all = [&](size_t begin, size_t end, unsigned) {
    for (size_t region = begin; region < end; ++region) {
      const auto slot = static_cast<uint32_t>(region / shape.kv_heads);
      const auto head = static_cast<uint32_t>(region % shape.kv_heads);
      const Place& place = places[slot];
      const size_t first = place.first * token + size_t{head} * shape.head_dim;
      for (const bool is_v : {false, true}) {
        const float inverse = inverse_scale(static_scale(setup, input.layer, head, is_v));
        const float* in = (is_v ? input.v : input.k) + first;
        for (uint32_t i = 0; i < place.fresh; ++i)
          write_row(setup, is_v, inverse, in + i * token, at(slot, head, is_v, i));
      }
    }
  };
  const size_t regions = places.size() * shape.kv_heads;
  if (setup.pool == nullptr) return write_all(0, regions, 0);
  // Rows that one thread writes before the others help: so few take no longer than a region.
  constexpr uint64_t kRows = 16;
  const uint64_t rows_each = (places.back().first + places.back().fresh) / places.size();
  setup.pool->parallel_for(regions, std::max<uint64_t>(1, kRows / (2 * rows_each)), write_all);
}

}  // namespace kvick::kv
