#pragma once
// Internal to kernels/: dot products of bytes with vpdpbusd on 256 bits, by the add_dots() of the
// including file. dots_avx2.h has the same functions without vpdpbusd.

#include "kernels/avx2/panel_avx2.h"

namespace kvick::kernels {
namespace {

constexpr int zero_of(const PackFormat& f) { return f.zero; }
constexpr int halves_together(const PackFormat& f) { return f.scale_group == 32 ? kHalves : 1; }

template <int kBits>
KVICK_INLINE __m256i factor_of(__m256i codes) {
  return codes;
}

// Adds to `out` the dot products of registers [kFirst, kLast) of one group's codes with each token,
// for 8 rows.
template <DType kType, int kTokens, int kFirst, int kLast>
KVICK_INLINE void dot(const std::byte* planes, const int8_t* q, __m256i out[]) {
  KVICK_UNROLL for (int j = kFirst; j < kLast; ++j) {
    const __m256i codes = load_values<kType>(planes, j);
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      out[t] = add_dots(out[t], codes, broadcast4(q + t * static_cast<int>(kGroup) + 4 * j));
    }
  }
}

// Sets `out` to the same products for unpacked codes of kCount halves.
template <DType kType, int kCount, int kTokens, int kFirst, int kLast>
KVICK_INLINE void dot_unpacked(const UnpackedCodes* codes, const int8_t* q,
                               __m256i out[][kTokens]) {
  KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) out[c][t] = _mm256_setzero_si256();
  }
  KVICK_UNROLL for (int j = kFirst; j < kLast; ++j) {
    __m256i line[kCount];
    KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
      line[c] = codes[c][j];
      asm("" : "+x"(line[c]));  // or g++ loads it again for each token
    }
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      const __m256i four = broadcast4(q + t * static_cast<int>(kGroup) + 4 * j);
      KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
        out[c][t] = add_dots(out[c][t], line[c], four);
      }
    }
  }
}

}  // namespace
}  // namespace kvick::kernels
