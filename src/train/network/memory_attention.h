#pragma once
// The memory of slots (Yi et al. 2024, section 3.2) for whole sequences: chunks of tokens in
// parallel, with the memory carried between chunks as a prefix sum. The result equals processing
// one token after the other, up to rounding (docs/adr/0008-a-memory-of-slots.md).

#include "train/network/tensors.h"

namespace kvick::train {

// B sequences of T tokens, K memories of M slots of d elements, each read by G query heads.
struct MemoryInputs {
  Tensor reads;   // [B, K, T * G, M] softmax(q · MKᵀ · s), the G heads of a token in sequence
  Tensor writes;  // [B, K, T, M] softmax(wq · MKᵀ · s)
  Tensor values;  // [B, K, T, d] wv
  Tensor sizes;   // [B, K, T] step sizes η; undefined: 1
  Tensor gates;   // [B, K, T] logarithms of the gates γ; undefined: 0
};

// Computes out_t = p_t · MV_t, where MV_0 = 0 and
//   plain, step: MV_t = MV_{t-1} + η_t · ww_tᵀ · wv_t
//   gated:       MV_t = γ_t · MV_{t-1} + η_t · ww_tᵀ · wv_t
//   delta:       MV_t = MV_{t-1} + η_t · ww_tᵀ · (wv_t - ww_t · MV_{t-1})
// Returns [B, K, T * G, d]. Sums between chunks are in float32 or float64.
Tensor read_memory(const MemoryInputs& in, const std::string& update, int64_t chunk);

}  // namespace kvick::train
