#pragma once
// Internal to kernels/: the linear-layer entries of the tables (quantise, matmul), per instruction
// set.

#include "kernels/table/table.h"

namespace kvick::kernels {

void fill_linear_scalar(Table& table);
void fill_linear_avx2(Table& table);
void fill_linear_avx_vnni(Table& table);
void fill_linear_avx512(Table& table);  // AVX-512 F, BW, DQ, VL
void fill_linear_vnni(Table& table);    // and VNNI
void fill_linear_vbmi(Table& table);    // and VBMI
void fill_linear_amx(Table& table);
void fill_linear_tiles(Table& table);  // matmul_prompt
void fill_linear_bf16(Table& table);   // matmul_rounded
void fill_linear_neon(Table& table);   // NEON with DotProd
void fill_linear_i8mm(Table& table);   // and I8MM

}  // namespace kvick::kernels
