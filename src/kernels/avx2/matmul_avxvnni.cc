// The linear layers with AVX-VNNI, for processors with vpdpbusd but no AVX-512: Intel's client
// processors since Alder Lake, and Sierra Forest.
//
// Half a panel, a token and four inputs take two instructions, a load and vpdpbusd. AVX2 takes
// three, and five with 8-bit codes. On processors without AVX-VNNI, matmul_avxvnni_emulated_test.cc
// tests the same code. Not measured yet.

#include <cstring>
#include <immintrin.h>
#include <limits>
#include <utility>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

KVICK_TARGET_AVX_VNNI_BEGIN

namespace kvick::kernels {
namespace {

KVICK_INLINE __m256i add_dots(__m256i sum, __m256i codes, __m256i q) {
  return _mm256_dpbusd_avx_epi32(sum, codes, q);
}

}  // namespace
}  // namespace kvick::kernels

#include "kernels/avx2/dots_avxvnni.h"
#include "kernels/avx2/matmul_avx2_impl.h"

namespace kvick::kernels {

void fill_linear_avx_vnni(Table& table) {
  table.quantise = quantise;
  table.matmul = matmul;
}

}  // namespace kvick::kernels

KVICK_TARGET_END
