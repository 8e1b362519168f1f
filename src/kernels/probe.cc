#include "kernels/probe.h"

#include <cstring>
#include <immintrin.h>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/target.h"

// Makes the compiler forget what it knows of a register or of memory, at no cost: without it the
// sums below would be computed while compiling, or once for all rounds.
#define KVICK_OPAQUE(value) asm volatile("" : "+x"(value))
#define KVICK_FORGET_MEMORY asm volatile("" ::: "memory")

namespace kvick::kernels {
namespace {

constexpr size_t kStep = 256;  // bytes that a read loop takes at once

// The sum of the lanes of a set of accumulators.
template <typename Lane>
uint64_t lane_sum(const void* accumulators, size_t bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes; at += sizeof(Lane)) {
    Lane lane;
    std::memcpy(&lane, static_cast<const std::byte*>(accumulators) + at, sizeof lane);
    sum += static_cast<uint64_t>(lane);
  }
  return sum;
}

// Plain C++, compiled for the baseline of the architecture like the scalar kernels. Operands come
// from the L1 cache.
constexpr uint32_t kScalarLanes = 64;

uint64_t read_scalar(const std::byte* data, size_t bytes) {
  uint64_t sums[4] = {};
  for (size_t at = 0; at < bytes; at += kStep)
    for (size_t i = 0; i < kStep; i += 32) {
      uint64_t words[4];
      std::memcpy(words, data + at + i, sizeof words);
      for (int w = 0; w < 4; ++w) sums[w] += words[w];
    }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

uint64_t int8_dot_scalar(uint32_t rounds) {
  int8_t a[kScalarLanes], b[kScalarLanes];
  std::memset(a, 1, sizeof a);
  std::memset(b, 1, sizeof b);
  int32_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_FORGET_MEMORY;
    for (uint32_t i = 0; i < kScalarLanes; ++i) sum += a[i] * b[i];
  }
  return 2 * static_cast<uint64_t>(sum);
}

uint64_t f32_fma_scalar(uint32_t rounds) {
  float a[kScalarLanes], b[kScalarLanes], sums[kScalarLanes] = {};
  for (uint32_t i = 0; i < kScalarLanes; ++i) a[i] = b[i] = 1;
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_FORGET_MEMORY;
    for (uint32_t i = 0; i < kScalarLanes; ++i) sums[i] += a[i] * b[i];
  }
  return 2 * lane_sum<float>(sums, sizeof sums);
}

KVICK_TARGET_AVX2_BEGIN

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

// Products of 8 bits in pairs, the pairs again in pairs, and the sum: what matmul_avx2.cc does.
uint64_t int8_dot_avx2(uint32_t rounds) {
  constexpr int kSums = 8;
  __m256i sums[kSums] = {};
  __m256i codes = _mm256_set1_epi8(1), q = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
  KVICK_OPAQUE(ones);
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) {
      KVICK_OPAQUE(codes);
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_maddubs_epi16(codes, q), ones));
    }
  }
  return 2 * lane_sum<int32_t>(sums, sizeof sums);
}

uint64_t f32_fma_avx2(uint32_t rounds) {
  constexpr int kSums = 12;  // 4 cycles on 2 ports, with a margin
  __m256 sums[kSums] = {};
  __m256 a = _mm256_set1_ps(1), b = _mm256_set1_ps(1);
  KVICK_OPAQUE(a);
  KVICK_OPAQUE(b);
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = _mm256_fmadd_ps(a, b, sums[i]);
  }
  return 2 * lane_sum<float>(sums, sizeof sums);
}

KVICK_TARGET_END
KVICK_TARGET_AVX512_BEGIN

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

uint64_t int8_dot_avx512(uint32_t rounds) {
  constexpr int kSums = 16;  // 5 cycles on 2 ports, with a margin
  __m512i sums[kSums] = {};
  __m512i codes = _mm512_set1_epi8(1), q = _mm512_set1_epi8(1);
  asm volatile("" : "+v"(codes), "+v"(q));
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], codes, q);
  }
  return 2 * lane_sum<int32_t>(sums, sizeof sums);
}

uint64_t f32_fma_avx512(uint32_t rounds) {
  constexpr int kSums = 16;
  __m512 sums[kSums] = {};
  __m512 a = _mm512_set1_ps(1), b = _mm512_set1_ps(1);
  asm volatile("" : "+v"(a), "+v"(b));
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_fmadd_ps(a, b, sums[i]);
  }
  return 2 * lane_sum<float>(sums, sizeof sums);
}

KVICK_TARGET_END

constexpr Probes kScalar = {base::Isa::kScalar, read_scalar, int8_dot_scalar, f32_fma_scalar};
constexpr Probes kAvx2 = {base::Isa::kAvx2, read_avx2, int8_dot_avx2, f32_fma_avx2};
constexpr Probes kAvx512 = {base::Isa::kAvx512, read_avx512, int8_dot_avx512, f32_fma_avx512};

}  // namespace

const Probes& probes(base::Isa isa) {
  KVICK_CHECK(base::isa_supported(isa), "{} is not supported here", base::isa_name(isa));
  return isa == base::Isa::kAvx512 ? kAvx512 : isa == base::Isa::kAvx2 ? kAvx2 : kScalar;
}

}  // namespace kvick::kernels
