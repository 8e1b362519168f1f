// The probes of AVX-512 VNNI: those of AVX-512 with another product of integers.

#include <cstring>
#include <immintrin.h>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/probe/probe_loops.h"

KVICK_TARGET_VNNI_BEGIN

namespace kvick::kernels {
namespace {

KVICK_INLINE __m512i dot_add(__m512i sum, __m512i codes, __m512i q) {
  asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(q));
  return sum;
}

uint64_t int8_dot_vnni(uint32_t rounds) {
  constexpr int kSums = 16;  // 5 cycles on 2 ports, with a margin
  __m512i sums[kSums] = {};
  const __m512i codes = _mm512_set1_epi8(1), q = codes;
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

Probes vnni_probes() {
  Probes probes = avx512_probes();
  probes.isa = base::Isa::kAvx512Vnni;
  probes.int8_dot = int8_dot_vnni;
  return probes;
}

}  // namespace kvick::kernels
