// The probes of AVX-512 BF16: those of AVX-512 VNNI with products of bfloat16.

#include <cstring>
#include <immintrin.h>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/probe/probe_loops.h"

KVICK_TARGET_BF16_BEGIN

namespace kvick::kernels {
namespace {

// A function of its own, because g++ otherwise keeps the accumulators in memory, which halves the
// rate.
KVICK_INLINE __m512 dot_pairs_add(__m512 sum, __m512i a, __m512i b) {
  asm volatile("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

// A round adds 2 to a float32, as a pair of ones: exact for kMostRounds.
uint64_t bf16_dot(uint32_t rounds) {
  constexpr int kSums = 16;  // 6 cycles on one port or two, with a margin
  __m512 sums[kSums] = {};
  const __m512i a = _mm512_set1_epi16(0x3f80), b = a;
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = dot_pairs_add(sums[i], a, b);
  }
  return 2 * lane_sum<float>(sums, sizeof sums);
}

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_END

namespace kvick::kernels {

Probes bf16_probes() {
  Probes probes = vnni_probes();
  probes.isa = base::Isa::kAvx512Bf16;
  probes.bf16_dot = bf16_dot;
  return probes;
}

}  // namespace kvick::kernels
