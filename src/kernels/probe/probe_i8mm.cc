// The probes of I8MM: those of NEON with another product of integers.

#include <arm_neon.h>

#include "kernels/isa/target.h"
#include "kernels/probe/probe_loops.h"

KVICK_TARGET_I8MM_BEGIN

namespace kvick::kernels {
namespace {

constexpr int kSums = 16;  // 4 cycles on 4 pipes

KVICK_INLINE int32x4_t dot_add(int32x4_t sum, int8x16_t codes, int8x16_t q) {
  asm volatile("usmmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(codes), "w"(q));
  return sum;
}

uint64_t int8_dot_i8mm(uint32_t rounds) {
  int32x4_t sums[kSums] = {};
  const int8x16_t codes = vdupq_n_s8(1), q = codes;
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

Probes i8mm_probes() {
  Probes probes = neon_probes();
  probes.isa = base::Isa::kNeonI8mm;
  probes.int8_dot = int8_dot_i8mm;
  return probes;
}

}  // namespace kvick::kernels
