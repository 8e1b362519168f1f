// The sets of probes of x86-64.

#include <immintrin.h>

#include "base/check.h"
#include "kernels/isa/target.h"
#include "kernels/probe/probe_loops.h"

namespace kvick::kernels {
namespace {

// Multiplies and adds four lanes, as compilers vectorise the scalar kernels' loops; the baseline
// has no fused multiply-add.
KVICK_INLINE __m128 multiply_add(__m128 sum, __m128 a, __m128 b) {
  __m128 product;
  asm volatile(
      "movaps %2, %1\n\t"
      "mulps %3, %1\n\t"
      "addps %1, %0"
      : "+x"(sum), "=&x"(product)
      : "x"(a), "x"(b));
  return sum;
}

uint64_t f32_fma_scalar(uint32_t rounds) {
  constexpr int kSums = 8;
  __m128 sums[kSums] = {};
  const __m128 a = _mm_set1_ps(1), b = a;
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = multiply_add(sums[i], a, b);
  }
  return 2 * lane_sum<float>(sums, sizeof sums);
}

}  // namespace

const Probes& probes(base::Isa isa) {
  KVICK_CHECK(base::isa_supported(isa), "{} is not supported here", base::isa_name(isa));
  static const Probes kProbes[] = {
      {base::Isa::kScalar, read_scalar, int8_dot_scalar, f32_fma_scalar, nullptr, nullptr},
      avx2_probes(),
      avx_vnni_probes(),
      avx512_probes(),
      vnni_probes(),
      bf16_probes(),
      amx_probes()};
  return kProbes[static_cast<size_t>(isa)];
}

}  // namespace kvick::kernels
