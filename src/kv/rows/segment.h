#pragma once
// Makes the segment of a view: rows of one layer and head, in the shape's types.

#include "kv/strategy/ranges.h"

namespace kvick::kv {

// Returns a segment whose keys begin at k and values at v, rows following each other directly. The
// caller sets the runs.
inline kernels::Segment segment_of(const Shape& shape, const std::byte* k, const std::byte* v) {
  kernels::Segment segment;
  segment.k = k;
  segment.v = v;
  segment.k_stride = static_cast<uint32_t>(shape.row_bytes(false));
  segment.v_stride = static_cast<uint32_t>(shape.row_bytes(true));
  segment.k_type = shape.k_type;
  segment.v_type = shape.v_type;
  if (!shape.latent) return segment;
  segment.v = segment.k;
  segment.v_stride = segment.k_stride;
  return segment;
}

// The same for one layer and head; also sets the scales of static types.
inline kernels::Segment segment_of(const Setup& setup, uint32_t layer, uint32_t head,
                                   const std::byte* k, const std::byte* v) {
  kernels::Segment segment = segment_of(setup.shape, k, v);
  segment.k_scale = static_scale(setup, layer, head, false);
  segment.v_scale = setup.shape.latent ? segment.k_scale : static_scale(setup, layer, head, true);
  return segment;
}

}  // namespace kvick::kv
