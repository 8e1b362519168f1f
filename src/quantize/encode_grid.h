#pragma once
// Encodes blocks of types below 3.5 bits: IQ1 to IQ3, whose weights are points of a grid, and the
// ternary types.

#include "kernels/formats/dtype.h"
#include "kernels/formats/write_block.h"

namespace kvick::quantize {

// Encodes one block. x: 256 weights. w: the factor of each squared error, above 0. type: IQ1_S to
// IQ3_S.
void fill_grid(kernels::DType type, const float* x, const float* w, kernels::BlockCodes& block);
// Encodes a block of TQ1_0 or TQ2_0: finds the scale and codes with the smallest error of all.
void fill_ternary(const float* x, const float* w, kernels::BlockCodes& block);

}  // namespace kvick::quantize
