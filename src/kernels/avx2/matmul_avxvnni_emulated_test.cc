// matmul_avxvnni.cc with vpdpbusd emulated by other instructions, for tests on machines without it
// (matmul_test.cc).

#include <cstring>
#include <immintrin.h>
#include <limits>
#include <utility>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/linear.h"

KVICK_TARGET_AVX2_BEGIN

namespace kvick::kernels {
namespace {

// Adds to each 32-bit lane of sum its four unsigned bytes of `codes` times its four signed bytes of
// `q`.
KVICK_INLINE __m256i add_dots(__m256i sum, __m256i codes, __m256i q) {
  const __m256i low = _mm256_set1_epi16(0xff), ones = _mm256_set1_epi16(1);
  const __m256i even = _mm256_mullo_epi16(_mm256_and_si256(codes, low),
                                          _mm256_srai_epi16(_mm256_slli_epi16(q, 8), 8));
  const __m256i odd = _mm256_mullo_epi16(_mm256_srli_epi16(codes, 8), _mm256_srai_epi16(q, 8));
  return _mm256_add_epi32(
      sum, _mm256_add_epi32(_mm256_madd_epi16(even, ones), _mm256_madd_epi16(odd, ones)));
}

}  // namespace
}  // namespace kvick::kernels

#include "kernels/avx2/dots_avxvnni.h"
#include "kernels/avx2/matmul_avx2_impl.h"

namespace kvick::kernels {

void fill_linear_avx_vnni_emulated(Table& table);  // for matmul_test.cc
void fill_linear_avx_vnni_emulated(Table& table) { table.matmul = matmul; }

}  // namespace kvick::kernels

KVICK_TARGET_END
