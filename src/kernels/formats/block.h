#pragma once
// Internal to kernels/: the quantised blocks of GGUF files taken apart, one group of 32 weights at
// a time.

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {

// weight i = (u[i] - zero of the format) * (d * scale[i / 16]) + m * min[i / 16]
struct BlockGroup {
  uint8_t u[32];
  uint16_t d, m;            // float16 bits; m is 0 in formats without a minimum
  int8_t scale[2], min[2];  // 1 in formats of one level
};

// Group `index` of a block: 0 in blocks of 32, 0..7 in the superblocks of 256.
void read_group(DType type, const std::byte* block, uint32_t index, BlockGroup& out);

}  // namespace kvick::kernels
