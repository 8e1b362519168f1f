// The sets of probes of AArch64.

#include <arm_neon.h>

#include "base/check.h"
#include "kernels/isa/target.h"
#include "kernels/probe/probe_loops.h"

namespace kvick::kernels {
namespace {

// Multiplies and adds four lanes, as compilers vectorise the scalar kernels' loops, which round
// twice.
KVICK_INLINE float32x4_t multiply_add(float32x4_t sum, float32x4_t a, float32x4_t b) {
  float32x4_t product;
  asm volatile(
      "fmul %1.4s, %2.4s, %3.4s\n\t"
      "fadd %0.4s, %0.4s, %1.4s"
      : "+w"(sum), "=&w"(product)
      : "w"(a), "w"(b));
  return sum;
}

uint64_t f32_fma_scalar(uint32_t rounds) {
  constexpr int kSums = 8;
  float32x4_t sums[kSums] = {};
  const float32x4_t a = vdupq_n_f32(1), b = a;
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
      neon_probes(),
      i8mm_probes()};
  return kProbes[isa == base::Isa::kScalar ? 0 : isa == base::Isa::kNeonDot ? 1 : 2];
}

}  // namespace kvick::kernels
