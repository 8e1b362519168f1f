// The probes of NEON with DotProd.

#include <arm_neon.h>

#include "kernels/isa/target.h"
#include "kernels/probe/probe_loops.h"

KVICK_TARGET_NEON_BEGIN

namespace kvick::kernels {
namespace {

constexpr int kSums = 16;  // 4 cycles on 4 pipes

uint64_t read_neon(const std::byte* data, size_t bytes) {
  uint64x2_t sums[4] = {};
  for (size_t at = 0; at < bytes; at += kStep) {
    const auto* in = reinterpret_cast<const uint64_t*>(data + at);
    KVICK_UNROLL
    for (int i = 0; i < 16; ++i) sums[i % 4] = vaddq_u64(sums[i % 4], vld1q_u64(in + 2 * i));
  }
  return lane_sum<uint64_t>(sums, sizeof sums);
}

KVICK_INLINE float32x4_t multiply_add(float32x4_t sum, float32x4_t a, float32x4_t b) {
  asm volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
  return sum;
}

uint64_t f32_fma_neon(uint32_t rounds) {
  float32x4_t sums[kSums] = {};
  const float32x4_t a = vdupq_n_f32(1), b = a;
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = multiply_add(sums[i], a, b);
  }
  return 2 * lane_sum<float>(sums, sizeof sums);
}

KVICK_INLINE int32x4_t dot_add(int32x4_t sum, int8x16_t codes, int8x16_t q) {
  asm volatile("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(codes), "w"(q));
  return sum;
}

uint64_t int8_dot_neon(uint32_t rounds) {
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

Probes neon_probes() {
  return {base::Isa::kNeonDot, read_neon, int8_dot_neon, f32_fma_neon, nullptr, nullptr};
}

}  // namespace kvick::kernels
