#pragma once
// The quantised blocks of GGUF files put together: the reverse of read_group (block.h).

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {

// The fields of one block. Each group of weights has a scale: 16 weights in Q2_K, Q3_K and Q6_K, 32
// in Q4_K, Q5_K and IQ4_XS.
struct BlockCodes {
  uint16_t d = 0, m = 0;  // float16 bits: the scale of all, and the minimum (K: of minima)
  std::array<int, 16>
      scale{};                // of a group, signed in Q3_K, Q6_K and IQ4_XS; [0]: MXFP4's exponent
  std::array<int, 16> min{};  // of a group
  std::array<int, 256> code{};  // not negative: Q8_0 has 128 added, Q6_K 32, Q3_K 4, Q4_0 8
};

// The block formats that write_block knows: Q8_0 to Q6_K, IQ4_NL, IQ4_XS and MXFP4.
bool has_block_writer(DType type);
// `out`: block_bytes of the type. Fields have to fit the format's bits.
void write_block(DType type, const BlockCodes& block, std::byte* out);

}  // namespace kvick::kernels
