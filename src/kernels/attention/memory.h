#pragma once
// A slot memory: token after token is added to the values of all slots, then reads them. MV_t =
// MV_{t-1} + ww_t^T * wv_t and out_t = p_t * MV_t of the Bounded-Cache Transformer (Yi et al. 2024,
// section 3.2), for many tokens in one pass over the slots. With gates, MV_{t-1} is first
// multiplied by the gate of token t.

#include <cstddef>
#include <cstdint>

namespace kvick::kernels {

// For t = 0, 1, ..., each slot m and element d:
//   value[m][d] = fma(weights[t][m], adds[t][d], gates[t] * value[m][d])
// Without gates their product is left out, which has the same bits as gates of 1. From token
// first_read on, for each query g of the group, over ascending m:
//   out[t - first_read][g][d] = fma(probs[t - first_read][g][m], value[m][d], ...), from 0
// So the bits do not depend on how tokens are divided into walks, or slots into tiles.
struct MemoryWalk {
  uint32_t slots = 0, head_dim = 0;
  uint32_t tokens = 0;
  uint32_t first_read = 0;  // tokens before it are added but do not read
  uint32_t group = 0;       // queries of one token
  uint32_t stride = 0;      // floats from one row of weights or probs to the next, at least slots
  const float* from = nullptr;     // [slots][head_dim], values before the first token
  float* to = nullptr;             // values after the last token; may be `from`; null: not wanted
  const float* weights = nullptr;  // [tokens] rows
  const float* adds = nullptr;     // [tokens][head_dim]
  const float* gates = nullptr;    // [tokens], or null: none
  const float* probs = nullptr;    // [tokens - first_read][group] rows
  float* out = nullptr;            // [tokens - first_read][group][head_dim]
  size_t out_stride = 0;           // floats from one token of `out` to the next
};

}  // namespace kvick::kernels
