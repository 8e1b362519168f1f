#pragma once
// Internal to kernels/: the attention and element-wise entries of a Table, one filler per
// instruction set.

#include "kernels/table.h"

namespace kvick::kernels {

void fill_rows_scalar(Table& table);
void fill_rows_avx2(Table& table);    // runs only where base::isa_supported(kAvx2)
void fill_rows_avx512(Table& table);  // AVX-512 F, BW, DQ, VL

}  // namespace kvick::kernels
