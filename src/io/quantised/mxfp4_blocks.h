#pragma once
// Converts MXFP4 from Hugging Face folders (gpt-oss: tensors *_blocks and *_scales) to GGML's
// blocks, which kernels read.

#include <cstddef>
#include <span>

namespace kvick::io {

// Each group of 32 weights has 16 bytes of `blocks` (weight 2 * i in the low half of byte i, weight
// 2 * i + 1 in the high half) and one byte of `scales` (an exponent of 2, plus 127). out: 17 bytes
// per group, of DType::kMXFP4; the weights do not change.
void mxfp4_from_halves(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                       std::span<std::byte> out);

}  // namespace kvick::io
