#pragma once
// Converts matrices of FP8 (E4M3) with scales to F16.

#include "base/result.h"
#include "io/file/tensor.h"
#include "io/quantised/scale_grid.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {

// Decodes E4M3 without infinities, as in PyTorch's float8_e4m3fn: 0x7f and 0xff are NaN.
float e4m3_to_f32(uint8_t code);

// codes: F8_E4M3 [outputs][inputs]. Each weight is code * scale in float32, rounded to F16. The
// error is at most 2^-11 of the weight, or 2^-25 if it is below 2^-14. transformers converts to
// BF16, which changes logits 8 times as much (0.3 % of the largest in tests/parity). Q8_0 would
// take half the memory but lose the smallest weights of each block.
base::Result<Tensor> fp8_tensor(const std::string& name, const StoredTensor& codes,
                                const StoredTensor& scales, MatrixSize block);

}  // namespace kvick::io
