#pragma once
// Internal to kernels/, except finite_scales(): reads the quantised blocks of GGUF files, one group
// of 32 weights at a time.

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"
#include "kernels/formats/pack_format.h"

namespace kvick::kernels {

// weight i = (u[i] - zero of the format) * scale_of(d, scale[i / 16]) + m * min[i / 16]
struct BlockGroup {
  uint8_t code[32];         // u, or the codes of the format's table
  uint16_t d, m;            // float16 bits; d is 0 if scales are bytes, m is 0 without a min
  int8_t scale[2], min[2];  // 1 in formats whose scales are float16 alone
};

// Reads group `index` of a block: 0 in blocks of 32, 0 or 1 in those of 64, 0..7 in the superblocks
// of 256.
void read_group(DType type, const std::byte* block, uint32_t index, BlockGroup& out);
// Reads groups of IQ1 to IQ3 and TQ, for read_group.
void read_grid_group(DType type, const uint8_t* block, uint32_t index, BlockGroup& out);

// Returns whether no float16 scale or minimum of these blocks is infinite or NaN. Scales of other
// types are always numbers.
bool finite_scales(DType type, const std::byte* blocks, size_t count);

// Returns a scale from its stored parts. It is exact, and so are its products with u - zero, of at
// most 11 + 6 + 7 bits.
float scale_of(const PackFormat& format, uint16_t d, int8_t byte);

}  // namespace kvick::kernels
