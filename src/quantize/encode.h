#pragma once
// float32 to the block formats of GGUF files, with the smallest error that a search near each
// block's extremes finds.

#include <cstddef>
#include <span>

#include "kernels/formats/dtype.h"

namespace kvick::quantize {

// True for F32, F16, BF16 and the types of kernels::has_block_writer.
bool can_encode(kernels::DType type);

// Encodes finite values, a whole number of blocks, into out. importance: per value (per column of
// the matrix) the weight of its squared error, 0 or more, such as the mean square of the activation
// that it is multiplied with; empty: all equal.
void encode(kernels::DType type, std::span<const float> values, std::span<const float> importance,
            std::byte* out);

}  // namespace kvick::quantize
