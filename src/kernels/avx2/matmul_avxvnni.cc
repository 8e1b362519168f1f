// The linear layers with AVX-VNNI, for processors that have vpdpbusd and no AVX-512: Intel's since
// Alder Lake that people have at home, Sierra Forest.
//
// A panel's half, a token and four inputs take two instructions, a load and vpdpbusd, where AVX2
// takes three, and five with 8-bit codes. Tested as matmul_avxvnni_emulated_test.cc on processors
// without it. Not measured yet.

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
