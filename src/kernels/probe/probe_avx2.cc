// The probes of AVX2.

#include <cstring>
#include <immintrin.h>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/probe/probe_loops.h"

KVICK_TARGET_AVX2_BEGIN

namespace kvick::kernels {
namespace {

uint64_t read_avx2(const std::byte* data, size_t bytes) {
  __m256i sums[4] = {};
  for (size_t at = 0; at < bytes; at += kStep) {
    const auto* in = reinterpret_cast<const __m256i*>(data + at);
    KVICK_UNROLL
    for (int i = 0; i < 8; ++i) {
      if (i % 2 == 0) {
        _mm_prefetch(reinterpret_cast<const char*>(in + i) + kAhead.near, _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(in + i) + kAhead.far, _MM_HINT_T1);
      }
      sums[i % 4] = _mm256_add_epi64(sums[i % 4], _mm256_load_si256(in + i));
    }
  }
  return lane_sum<uint64_t>(sums, sizeof sums);
}

// These do what matmul does with 4-bit codes: add products in 16 bits while they fit, then widen
// the sum. There are three because the first product has no sum to add to.
KVICK_INLINE __m256i multiply_pairs(__m256i codes, __m256i q) {
  __m256i pairs;
  asm volatile("vpmaddubsw %2, %1, %0" : "=x"(pairs) : "x"(codes), "x"(q));
  return pairs;
}
KVICK_INLINE __m256i add_pairs(__m256i sum, __m256i pairs) {
  asm volatile("vpaddw %1, %0, %0" : "+x"(sum) : "x"(pairs));
  return sum;
}
KVICK_INLINE __m256i add_widened(__m256i sum, __m256i pairs, __m256i ones) {
  asm volatile(
      "vpmaddwd %2, %1, %1\n\t"
      "vpaddd %1, %0, %0"
      : "+x"(sum), "+x"(pairs)
      : "x"(ones));
  return sum;
}

uint64_t int8_dot_avx2(uint32_t rounds) {
  constexpr int kSums = 4;
  __m256i sums[kSums] = {};
  const __m256i codes = _mm256_set1_epi8(1), q = codes, ones = _mm256_set1_epi16(1);
  for (uint32_t round = 0; round < rounds; ++round) {
    __m256i pairs[kSums];
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) pairs[i] = multiply_pairs(codes, q);
    KVICK_UNROLL
    for (int step = 1; step < kPairSteps; ++step) {
      KVICK_UNROLL
      for (int i = 0; i < kSums; ++i) pairs[i] = add_pairs(pairs[i], multiply_pairs(codes, q));
    }
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = add_widened(sums[i], pairs[i], ones);
  }
  return 2 * lane_sum<int32_t>(sums, sizeof sums);
}

KVICK_INLINE __m256 multiply_add(__m256 sum, __m256 a, __m256 b) {
  asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  return sum;
}

uint64_t f32_fma_avx2(uint32_t rounds) {
  constexpr int kSums = 12;  // 4 cycles on 2 ports, with a margin
  __m256 sums[kSums] = {};
  const __m256 a = _mm256_set1_ps(1), b = a;
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = multiply_add(sums[i], a, b);
  }
  return 2 * lane_sum<float>(sums, sizeof sums);
}

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_END

namespace kvick::kernels {

Probes avx2_probes() {
  return {base::Isa::kAvx2, read_avx2, int8_dot_avx2, f32_fma_avx2, nullptr, nullptr};
}

}  // namespace kvick::kernels
