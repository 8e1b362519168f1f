#pragma once
// Writing the fresh rows of a batch in the store's element types, wherever its strategy keeps them.

#include <algorithm>

#include "base/check.h"
#include "kv/checked.h"

namespace kvick::kv {

// k, v: one layer's, as Step::write takes them. at(slot, head, is_v, i) is where fresh row i of a
// slot goes; it is called from the threads of the setup's pool. Of a type whose rows go together a
// slot has whole groups.
template <class At>
void write_fresh_rows(const Setup& setup, std::span<const Place> places, const float* k,
                      const float* v, const At& at) {
  const Shape& shape = setup.shape;
  for (const kernels::DType type : {shape.k_type, shape.v_type})
    for (const Place& place : places)
      KVICK_CHECK(place.fresh % kernels::rows_together(type) == 0, "{} rows of type {}",
                  place.fresh, kernels::dtype_info(type).name);
  const size_t token = size_t{shape.kv_heads} * shape.head_dim;  // floats
  const auto write_all = [&](size_t begin, size_t end, unsigned) {
    for (size_t region = begin; region < end; ++region) {
      const auto slot = static_cast<uint32_t>(region / shape.kv_heads);
      const auto head = static_cast<uint32_t>(region % shape.kv_heads);
      const Place& place = places[slot];
      const size_t first = place.first * token + size_t{head} * shape.head_dim;
      for (const bool is_v : {false, true}) {
        const kernels::DType type = is_v ? shape.v_type : shape.k_type;
        const float* const in = (is_v ? v : k) + first;
        if (kernels::rows_together(type) == 1) {
          for (uint32_t i = 0; i < place.fresh; ++i)
            setup.store_row(type, in + i * token, shape.head_dim, at(slot, head, is_v, i));
          continue;
        }
        std::byte* rows[kernels::kGroupRows];
        for (uint32_t i = 0; i < place.fresh; i += kernels::kGroupRows) {
          for (uint32_t r = 0; r < kernels::kGroupRows; ++r) rows[r] = at(slot, head, is_v, i + r);
          setup.store_group(type, in + i * token, token, shape.head_dim, rows);
        }
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
