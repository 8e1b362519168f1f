#pragma once
// The piece of a view that every layout makes: rows of one layer and head, in the shape's types.

#include "kv/ranges.h"

namespace kvick::kv {

// Row 0 of the keys lies at k, of the values at v, each row right behind the one before. The runs
// are the caller's to set.
inline kernels::Segment segment_of(const Setup& setup, const Ask& ask, const std::byte* k,
                                   const std::byte* v) {
  const Shape& shape = setup.shape;
  kernels::Segment segment;
  segment.k = k;
  segment.v = v;
  segment.k_stride = static_cast<uint32_t>(shape.row_bytes(false));
  segment.v_stride = static_cast<uint32_t>(shape.row_bytes(true));
  segment.k_type = shape.k_type;
  segment.v_type = shape.v_type;
  segment.k_scale = static_scale(setup, ask.layer, ask.head, false);
  segment.v_scale = static_scale(setup, ask.layer, ask.head, true);
  return segment;
}

}  // namespace kvick::kv
