#pragma once
// Encodes float32 weights in the block formats of GGUF files. A search near each block's extremes
// finds the smallest error.

#include <cstddef>
#include <span>

#include "kernels/formats/dtype.h"

namespace kvick::quantize {

// Returns true for F32, F16, BF16 and the types of kernels::has_block_writer.
bool can_encode(kernels::DType type);

// Encodes finite values, a whole number of blocks, into out. importance: per value (per column of
// the matrix) the factor of its squared error, 0 or more, such as the mean square of the activation
// that multiplies it; empty: all equal.
void encode(kernels::DType type, std::span<const float> values, std::span<const float> importance,
            std::byte* out);

}  // namespace kvick::quantize
