#pragma once
// Matrices of FP8 (E4M3) with scales, as F16.

#include "base/result.h"
#include "io/file/tensor.h"
#include "io/quantised/scale_grid.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {

// E4M3 without infinities, as PyTorch's float8_e4m3fn: 0x7f and 0xff are NaN.
float e4m3_to_f32(uint8_t code);

// codes [outputs][inputs] of F8_E4M3. Each weight is code * scale in float32, rounded to F16: by
// 2^-11 of it at most, or 2^-25 if it is below 2^-14. BF16, which transformers makes of it, moves
// logits 8 times as far (0.3 % of the largest in tests/parity). Q8_0 would take half the memory but
// drop the smallest weights of each block.
base::Result<Tensor> fp8_tensor(const std::string& name, const StoredTensor& codes,
                                const StoredTensor& scales, MatrixSize block);

}  // namespace kvick::io
