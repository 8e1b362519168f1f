#pragma once
// float32 to the block formats of GGUF files, with the smallest error that a search near each
// block's extremes finds.

#include <cstddef>
#include <span>

#include "kernels/formats/dtype.h"

namespace kvick::quantize {

// F32, F16, BF16, and the types of kernels::has_block_writer.
bool can_encode(kernels::DType type);

// Finite values, whole blocks of the type, to as many bytes. importance: of each value (of its
// column of the matrix), 0 or more, such as the mean square of the activation that it is multiplied
// with; empty: all alike.
void encode(kernels::DType type, std::span<const float> values, std::span<const float> importance,
            std::byte* out);

}  // namespace kvick::quantize
