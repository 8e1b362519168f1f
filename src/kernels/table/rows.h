#pragma once
// Internal to kernels/: the attention and element-wise entries of a Table, one filler per
// instruction set.

#include "kernels/table/table.h"

namespace kvick::kernels {

void fill_rows_scalar(Table& table);
void fill_rows_avx2(Table& table);    // runs only where base::isa_supported(kAvx2)
void fill_rows_avx512(Table& table);  // AVX-512 F, BW, DQ, VL
void fill_rows_vnni(Table& table);    // as AVX-512, but its own attend_chunk
void fill_rows_amx(Table& table);     // as VNNI, and attend_prompt on tiles
void fill_rows_neon(Table& table);    // any AArch64

// Computes Table::attend_chunk with AVX-512 VNNI.
void attend_chunk_vnni(const View& view, const Queries& queries, uint32_t chunk, Partial out,
                       float* probs);

}  // namespace kvick::kernels
