// The probes of AVX-512 F, BW, DQ and VL.

#include <cstring>
#include <immintrin.h>

#include "kernels/isa/target.h"
#include "kernels/linear/matmul.h"
#include "kernels/probe/probe_loops.h"

KVICK_TARGET_AVX512_BEGIN

namespace kvick::kernels {
namespace {

uint64_t read_avx512(const std::byte* data, size_t bytes) {
  __m512i sums[4] = {};
  for (size_t at = 0; at < bytes; at += kStep) {
    const std::byte* in = data + at;
    KVICK_UNROLL
    for (int i = 0; i < 4; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(in + 64 * i) + kAhead.near, _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(in + 64 * i) + kAhead.far, _MM_HINT_T1);
      sums[i] = _mm512_add_epi64(sums[i], _mm512_load_si512(in + 64 * i));
    }
  }
  return lane_sum<uint64_t>(sums, sizeof sums);
}

// These do what matmul does with 4-bit codes: add products in 16 bits while they fit, then widen
// the sum. There are three because the first product has no sum to add to.
KVICK_INLINE __m512i multiply_pairs(__m512i codes, __m512i q) {
  __m512i pairs;
  asm volatile("vpmaddubsw %2, %1, %0" : "=v"(pairs) : "v"(codes), "v"(q));
  return pairs;
}
KVICK_INLINE __m512i add_pairs(__m512i sum, __m512i pairs) {
  asm volatile("vpaddw %1, %0, %0" : "+v"(sum) : "v"(pairs));
  return sum;
}
KVICK_INLINE __m512i add_widened(__m512i sum, __m512i pairs, __m512i ones) {
  asm volatile(
      "vpmaddwd %2, %1, %1\n\t"
      "vpaddd %1, %0, %0"
      : "+v"(sum), "+v"(pairs)
      : "v"(ones));
  return sum;
}

uint64_t int8_dot_avx512(uint32_t rounds) {
  constexpr int kSums = 4;
  __m512i sums[kSums] = {};
  const __m512i codes = _mm512_set1_epi8(1), q = codes, ones = _mm512_set1_epi16(1);
  for (uint32_t round = 0; round < rounds; ++round) {
    __m512i pairs[kSums];
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

KVICK_INLINE __m512 multiply_add(__m512 sum, __m512 a, __m512 b) {
  asm volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

uint64_t f32_fma_avx512(uint32_t rounds) {
  constexpr int kSums = 16;
  __m512 sums[kSums] = {};
  const __m512 a = _mm512_set1_ps(1), b = a;
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

Probes avx512_probes() {
  return {base::Isa::kAvx512, read_avx512, int8_dot_avx512, f32_fma_avx512, nullptr, nullptr};
}

}  // namespace kvick::kernels
