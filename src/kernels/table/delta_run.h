#pragma once

#include <cstddef>

namespace kvick::kernels {

// Some tokens of one value head under the gated delta rule: see Table::delta_rule. The state is
// stored in panels of kDeltaPanel values: [panels][k_dim][kDeltaPanel].
inline constexpr size_t kDeltaPanel = 16;
struct DeltaRun {
  size_t tokens = 0, k_dim = 0, panels = 0;
  const float *q = nullptr, *k = nullptr;  // [tokens][k_dim], k_stride floats from one to the next
  size_t k_stride = 0;
  const float* v = nullptr;  // [tokens][panels * kDeltaPanel], v_stride from one to the next
  size_t v_stride = 0;
  const float *decay = nullptr, *beta = nullptr;  // [tokens], gate_stride from one to the next
  size_t gate_stride = 0;
  const float* before = nullptr;  // the state before the first token
  float* after = nullptr;         // after the last one; may be `before`
  float* out = nullptr;           // as v
  size_t out_stride = 0;
};

}  // namespace kvick::kernels
