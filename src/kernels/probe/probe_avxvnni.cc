// The probes of AVX-VNNI: those of AVX2 with another product of integers.

#include <cstring>
#include <immintrin.h>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/probe/probe_loops.h"

KVICK_TARGET_AVX_VNNI_BEGIN

namespace kvick::kernels {
namespace {

KVICK_INLINE __m256i dot_add(__m256i sum, __m256i codes, __m256i q) {
  asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(codes), "x"(q));
  return sum;
}

uint64_t int8_dot_avx_vnni(uint32_t rounds) {
  constexpr int kSums = 12;  // 5 cycles on 2 ports, with a margin
  __m256i sums[kSums] = {};
  const __m256i codes = _mm256_set1_epi8(1), q = codes;
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = dot_add(sums[i], codes, q);
  }
  return 2 * lane_sum<int32_t>(sums, sizeof sums);
}

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_END

namespace kvick::kernels {

Probes avx_vnni_probes() {
  Probes probes = avx2_probes();
  probes.isa = base::Isa::kAvxVnni;
  probes.int8_dot = int8_dot_avx_vnni;
  return probes;
}

}  // namespace kvick::kernels
