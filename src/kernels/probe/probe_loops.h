#pragma once
// Internal to kernels/: what the probes of every instruction set share, and their sets (probe.h).
//
// The probed instructions are inline assembly: with intrinsics, g++ merges accumulators that have
// equal values, or keeps them in memory.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/linear/matmul.h"
#include "kernels/probe/probe.h"

namespace kvick::kernels {

inline constexpr size_t kStep = 256;  // bytes per iteration of a read loop
// Without VNNI: how many products of 4-bit codes are summed in 16 bits before they are widened.
// Codes of more bits are widened more often, so no format is multiplied faster.
inline constexpr int kPairSteps = sums_in_16_bits(4);

// Returns the sum of the lanes of a set of accumulators.
template <typename Lane>
uint64_t lane_sum(const void* accumulators, size_t bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes; at += sizeof(Lane)) {
    Lane lane;
    std::memcpy(&lane, static_cast<const std::byte*>(accumulators) + at, sizeof lane);
    sum += static_cast<uint64_t>(lane);
  }
  return sum;
}

// Plain C++.
uint64_t read_scalar(const std::byte* data, size_t bytes);
uint64_t int8_dot_scalar(uint32_t rounds);

Probes avx2_probes();
Probes avx_vnni_probes();
Probes avx512_probes();
Probes vnni_probes();
Probes bf16_probes();
Probes amx_probes();
Probes neon_probes();
Probes i8mm_probes();

}  // namespace kvick::kernels
