#pragma once
// Encodes float32 to every format of kernels/formats/dtype.h. These quantisers use every field of a
// block, but do not minimise the error.

#include <cstddef>

#include "kernels/formats/dtype.h"

namespace kvick::tools {

// Encodes n values (a multiple of the format's block) to n * block_bytes / block bytes.
void encode(kernels::DType type, const float* in, size_t n, std::byte* out);

}  // namespace kvick::tools
