#pragma once
// float32 to every format of kernels/formats/dtype.h: plain quantisers that use every field of a
// block, not good ones.

#include <cstddef>

#include "kernels/formats/dtype.h"

namespace kvick::tools {

// n values (a multiple of the format's block) to n * block_bytes / block bytes.
void encode(kernels::DType type, const float* in, size_t n, std::byte* out);

}  // namespace kvick::tools
