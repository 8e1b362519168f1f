#pragma once
// Static quantisation: all rows of a head share one set of parameters, known before the first row.
// Each row is quantised once and keeps its bytes wherever it is moved ("LLM Technical Notes: KV
// Cache Implementation for inference on HTP", the page on quantised models).

#include <vector>

#include "kv/strategy/strategy.h"

namespace kvick::kv {

// The largest magnitudes that the rows of each head can hold, from a calibration pass; larger
// values are clipped. [layers][kv_heads], finite, not negative.
struct StaticRanges {
  std::vector<float> k, v;
  bool operator==(const StaticRanges&) const = default;
};

// Returns the value of one quantisation step in a head's rows; 1 if the shape's type is not static.
inline float static_scale(const Setup& setup, uint32_t layer, uint32_t head, bool is_v) {
  const kernels::DType type = is_v ? setup.shape.v_type : setup.shape.k_type;
  if (!kernels::is_static(type)) return 1;
  const std::vector<float>& ranges = is_v ? setup.ranges->v : setup.ranges->k;
  return ranges[size_t{layer} * setup.shape.kv_heads + head] /
         static_cast<float>(kernels::static_limit(type));
}

// Returns the factor from value to code; 0 for scales up to 1e-35, where all values are practically
// 0.
inline float inverse_scale(float scale) { return scale > 1e-35F ? 1 / scale : 0; }

}  // namespace kvick::kv
