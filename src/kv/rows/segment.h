#pragma once
// The piece of a view that every layout makes: rows of one layer and head, in the shape's types.

#include "kv/contract/ranges.h"

namespace kvick::kv {

// Row 0 of the keys lies at k, of the values at v, each row right behind the one before. The runs
// are the caller's to set.
inline kernels::Segment segment_of(const Shape& shape, const std::byte* k, const std::byte* v) {
  kernels::Segment segment;
  segment.k = k;
  segment.v = v;
  segment.k_stride = static_cast<uint32_t>(shape.row_bytes(false));
  segment.v_stride = static_cast<uint32_t>(shape.row_bytes(true));
  segment.k_type = shape.k_type;
  segment.v_type = shape.v_type;
  return segment;
}

// The same of one layer and head, whose static types have scales.
inline kernels::Segment segment_of(const Setup& setup, uint32_t layer, uint32_t head,
                                   const std::byte* k, const std::byte* v) {
  kernels::Segment segment = segment_of(setup.shape, k, v);
  segment.k_scale = static_scale(setup, layer, head, false);
  segment.v_scale = static_scale(setup, layer, head, true);
  return segment;
}

}  // namespace kvick::kv
