#include "kernels/probe.h"

#include <cstring>
#include <immintrin.h>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/target.h"

namespace kvick::kernels {
namespace {

constexpr size_t kStep = 256;          // bytes that a read loop takes at once
constexpr uint32_t kScalarLanes = 32;  // int8 products of one round of the scalar probe
constexpr int kTileRows = 16;          // of each tile
constexpr size_t kTileLine = 64;       // bytes of one of its rows

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

// The probed instructions are written as such: of intrinsics, g++ makes one accumulator out of all
// that begin and go on alike, or keeps them in memory.

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

// Plain C++, compiled for the baseline of the architecture as the scalar kernels are; operands come
// from the L1 cache.
uint64_t int8_dot_scalar(uint32_t rounds) {
  int8_t a[kScalarLanes], b[kScalarLanes];
  std::memset(a, 1, sizeof a);
  std::memset(b, 1, sizeof b);
  int32_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+m"(a), "+m"(b));  // they may have changed: no product is known
    for (uint32_t i = 0; i < kScalarLanes; ++i) sum += a[i] * b[i];
  }
  return 2 * static_cast<uint64_t>(sum);
}

// Four at a time, as compilers make of the scalar kernels' loops; the baseline has no fused one.
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
KVICK_INLINE __m256i dot_add(__m256i sum, __m256i codes, __m256i q, __m256i ones) {
  __m256i pairs;
  asm volatile(
      "vpmaddubsw %3, %2, %1\n\t"
      "vpmaddwd %4, %1, %1\n\t"
      "vpaddd %1, %0, %0"
      : "+x"(sum), "=&x"(pairs)
      : "x"(codes), "x"(q), "x"(ones));
  return sum;
}

uint64_t int8_dot_avx2(uint32_t rounds) {
  constexpr int kSums = 8;
  __m256i sums[kSums] = {};
  const __m256i codes = _mm256_set1_epi8(1), q = codes, ones = _mm256_set1_epi16(1);
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = dot_add(sums[i], codes, q, ones);
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

KVICK_INLINE __m512i dot_add(__m512i sum, __m512i codes, __m512i q) {
  asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(q));
  return sum;
}
KVICK_INLINE __m512 multiply_add(__m512 sum, __m512 a, __m512 b) {
  asm volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

uint64_t int8_dot_avx512(uint32_t rounds) {
  constexpr int kSums = 16;  // 5 cycles on 2 ports, with a margin
  __m512i sums[kSums] = {};
  const __m512i codes = _mm512_set1_epi8(1), q = codes;
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = dot_add(sums[i], codes, q);
  }
  return 2 * lane_sum<int32_t>(sums, sizeof sums);
}

// A round adds 2 to a float32, as a pair of ones: exact for kMostRounds.
uint64_t bf16_dot_avx512(uint32_t rounds) {
  constexpr int kSums = 16;  // 6 cycles on one port or two, with a margin
  __m512 sums[kSums] = {};
  const __m512i a = _mm512_set1_epi16(0x3f80), b = a;
  for (uint32_t round = 0; round < rounds; ++round) {
    KVICK_UNROLL
    for (int i = 0; i < kSums; ++i)
      asm volatile("vdpbf16ps %2, %1, %0" : "+v"(sums[i]) : "v"(a), "v"(b));
  }
  return 2 * lane_sum<float>(sums, sizeof sums);
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

KVICK_TARGET_END

KVICK_TARGET_AMX_BEGIN
}  // namespace
}  // namespace kvick::kernels
#include "kernels/amx_tiles.h"
namespace kvick::kernels {
namespace {

// Operands are in tmm6 and 7, sums in tmm0 to 3.
void configure_probe(const void* ones) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.set(i, kTileRows, kTileLine);
  configure_tiles(config);
  load_tile<6>(ones, kTileLine);
  load_tile<7>(ones, kTileLine);
}
KVICK_INLINE void zero_sums() {
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
}
// What the lanes of the four sums, of 32 bits, add up to.
template <typename Lane>
uint64_t tile_sum() {
  alignas(64) Lane sums[4][kTileRows][kTileLine / sizeof(Lane)];
  store_tile<0>(sums[0], kTileLine);
  store_tile<1>(sums[1], kTileLine);
  store_tile<2>(sums[2], kTileLine);
  store_tile<3>(sums[3], kTileLine);
  return lane_sum<Lane>(sums, sizeof sums);
}

uint64_t int8_dot_amx(uint32_t rounds) {
  alignas(64) int8_t ones[kTileRows][kTileLine];
  std::memset(ones, 1, sizeof ones);
  configure_probe(ones);
  zero_sums();
  for (uint32_t round = 0; round < rounds; ++round) {  // one takes 52 cycles, one starts every 16
    dot_tiles<0, 6, 7>();
    dot_tiles<1, 6, 7>();
    dot_tiles<2, 6, 7>();
    dot_tiles<3, 6, 7>();
  }
  const uint64_t sum = tile_sum<int32_t>();
  release_tiles();
  return 2 * sum;
}

// A round adds 32 to a float32, as 16 pairs: exact up to 2^25, so sums begin anew before that.
uint64_t bf16_tiles_amx(uint32_t rounds) {
  constexpr uint32_t kMostAtOnce = 1 << 18;
  constexpr uint16_t kOne = 0x3f80;
  alignas(64) uint16_t ones[kTileRows * kTileLine / sizeof(uint16_t)];
  for (uint16_t& one : ones) one = kOne;
  configure_probe(ones);
  uint64_t sum = 0;
  while (rounds > 0) {
    const uint32_t n = rounds < kMostAtOnce ? rounds : kMostAtOnce;
    rounds -= n;
    zero_sums();
    for (uint32_t round = 0; round < n; ++round) {  // as of int8
      dot_tiles_bf16<0, 6, 7>();
      dot_tiles_bf16<1, 6, 7>();
      dot_tiles_bf16<2, 6, 7>();
      dot_tiles_bf16<3, 6, 7>();
    }
    sum += tile_sum<float>();
  }
  release_tiles();
  return 2 * sum;
}

KVICK_TARGET_END

constexpr Probes kScalar = {base::Isa::kScalar, read_scalar, int8_dot_scalar,
                            f32_fma_scalar,     nullptr,     nullptr};
constexpr Probes kAvx2 = {base::Isa::kAvx2, read_avx2, int8_dot_avx2,
                          f32_fma_avx2,     nullptr,   nullptr};
constexpr Probes kAvx512 = {base::Isa::kAvx512, read_avx512,     int8_dot_avx512,
                            f32_fma_avx512,     bf16_dot_avx512, nullptr};
constexpr Probes kAmx = {base::Isa::kAmx, read_avx512,     int8_dot_amx,
                         f32_fma_avx512,  bf16_dot_avx512, bf16_tiles_amx};

}  // namespace

const Probes& probes(base::Isa isa) {
  KVICK_CHECK(base::isa_supported(isa), "{} is not supported here", base::isa_name(isa));
  const Probes* of[] = {&kScalar, &kAvx2, &kAvx512, &kAmx};
  return *of[static_cast<size_t>(isa)];
}

// Short pieces, in turn, and the best of each: a piece is far below a scheduler's slice, so that
// some run undisturbed also on a busy machine.
bool products_of_bf16_pay(const Probes& probes, base::Clock clock) {
  if (probes.bf16_dot == nullptr) return false;
  constexpr int kPieces = 32;
  constexpr uint32_t kRounds = 1 << 11;  // 10 to 20 microseconds
  constexpr double kLeast = 1.5;
  double bf16 = 0, f32 = 0;
  const auto measure = [&](uint64_t (*probe)(uint32_t), double& best) {
    const double start = clock();
    const auto operations = static_cast<double>(probe(kRounds));
    const double seconds = clock() - start;
    if (seconds > 0 && operations / seconds > best) best = operations / seconds;
  };
  for (int piece = 0; piece < kPieces; ++piece) {
    measure(probes.bf16_dot, bf16);
    measure(probes.f32_fma, f32);
  }
  return bf16 >= kLeast * f32;
}

}  // namespace kvick::kernels
