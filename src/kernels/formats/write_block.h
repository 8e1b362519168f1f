#pragma once
// Writes the quantised blocks of GGUF files: the reverse of read_group (block.h).

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {

// The fields of one block. Each group of weights has a scale: 16 weights in Q2_K, Q3_K, Q6_K,
// IQ2_S, IQ2_XS and IQ1_M, 32 in Q4_K, Q5_K, IQ4_XS, IQ3_S, IQ3_XXS, IQ2_XXS and IQ1_S.
struct BlockCodes {
  uint16_t d = 0, m = 0;  // float16 bits: scale, and minimum (K formats: scale of minima)
  // Scales of groups: signed in Q3_K, Q6_K and IQ4_XS, odd in IQ1 to IQ3. [0] is MXFP4's exponent.
  std::array<int, 16> scale{};
  std::array<int, 16> min{};  // minima of groups
  // Codes, not negative: Q8_0 has 128 added, Q6_K 32, Q3_K 4, Q4_0 8, TQ1_0 and TQ2_0 1. Those of
  // IQ1 to IQ3 are codes of codebooks.h, whose magnitudes are points of the type's grid.
  std::array<int, 256> code{};
};

// Whether write_block knows this block format: all but NVFP4.
bool has_block_writer(DType type);
// Writes a block to `out`, block_bytes of the type. Fields must fit the format's bits.
void write_block(DType type, const BlockCodes& block, std::byte* out);
// Writes blocks of IQ1 to IQ3 and TQ, for write_block; `out` must be all zeros.
void write_grid_block(DType type, const BlockCodes& block, uint8_t* out);

}  // namespace kvick::kernels
