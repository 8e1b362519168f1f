#pragma once
// A memory of slots: tokens are added to the values of all slots and read them back, one after the
// other. MV_t = MV_{t-1} + ww_t^T * wv_t and out_t = p_t * MV_t of the Bounded-Cache Transformer
// (Yi et al. 2024, section 3.2), for many tokens in one pass over the slots; with gates, each of
// which a token leaves that share of MV_{t-1}.

#include <cstddef>
#include <cstdint>

namespace kvick::kernels {

// For t = 0, 1, ..., each slot m and element d:
//   value[m][d] = fma(weights[t][m], adds[t][d], gates[t] * value[m][d])
// without gates the product with them is left out, which gates of 1 would not change by a bit,
// and from token first_read on, for each query g of its group, over ascending m:
//   out[t - first_read][g][d] = fma(probs[t - first_read][g][m], value[m][d], ...), from 0
// So neither how tokens are cut into walks nor how slots are into tiles can change a bit.
struct MemoryWalk {
  uint32_t slots = 0, head_dim = 0;
  uint32_t tokens = 0;
  uint32_t first_read = 0;  // tokens before it are added, not read
  uint32_t group = 0;       // queries of one token
  uint32_t stride = 0;      // floats from one row of weights or probs to the next, at least slots
  const float* from = nullptr;     // [slots][head_dim], values before the first token
  float* to = nullptr;             // those after the last; may be `from`, or null: not wanted
  const float* weights = nullptr;  // [tokens] rows
  const float* adds = nullptr;     // [tokens][head_dim]
  const float* gates = nullptr;    // [tokens], or null: none
  const float* probs = nullptr;    // [tokens - first_read][group] rows
  float* out = nullptr;            // [tokens - first_read][group][head_dim]
  size_t out_stride = 0;           // floats from one token of `out` to the next
};

}  // namespace kvick::kernels
