// The linear layers with AVX2, FMA and F16C, whose products of bytes are added in 16 bits. Measured
// as in matmul_vnni.cc: 512 tokens Q4_0 145, Q4_1 143, Q5_0 119, Q6_K 101, Q8_0 89 GOP/s (8-bit
// codes need two more operations per product to keep 16-bit sums from saturating), F16 61 GFLOP/s;
// one token Q8_0 15.8, Q4_1 15.3, F16 16.0 GB/s from memory. (Measured before prompt_block_avx2.h.)

#include <cstring>
#include <immintrin.h>
#include <limits>
#include <utility>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

KVICK_TARGET_AVX2_BEGIN

#include "kernels/avx2/dots_avx2.h"
#include "kernels/avx2/matmul_avx2_impl.h"

namespace kvick::kernels {

void fill_linear_avx2(Table& table) {
  table.quantise = quantise;
  table.matmul = matmul;
}

}  // namespace kvick::kernels

KVICK_TARGET_END
