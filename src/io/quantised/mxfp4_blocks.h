#pragma once
// MXFP4 as Hugging Face folders have it (gpt-oss: tensors *_blocks and *_scales), to the blocks of
// GGML that kernels read.

#include <cstddef>
#include <span>

namespace kvick::io {

// Each group of 32 weights: 16 bytes of `blocks`, weight 2 * i in the low half of byte i and 2 * i
// + 1 in the high one, and a byte of `scales`, an exponent of 2 less 127. out: 17 bytes each, of
// DType::kMXFP4, to the same weights.
void mxfp4_from_halves(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                       std::span<std::byte> out);

}  // namespace kvick::io
