#pragma once
// Blocks of the types below three and a half bits: IQ1 to IQ3, whose weights lie on the points of a
// grid, and the ternary ones.

#include "kernels/formats/dtype.h"
#include "kernels/formats/write_block.h"

namespace kvick::quantize {

// x: 256 weights. w: the factor of each squared error, above 0. type: IQ1_S to IQ3_S.
void fill_grid(kernels::DType type, const float* x, const float* w, kernels::BlockCodes& block);
// TQ1_0, TQ2_0: the scale and codes with the smallest error of all.
void fill_ternary(const float* x, const float* w, kernels::BlockCodes& block);

}  // namespace kvick::quantize
