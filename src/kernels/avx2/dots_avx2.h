#pragma once
// Internal to kernels/: dot products of bytes with AVX2: pairs of products are added in 16 bits,
// then widened. dots_avxvnni.h has the same functions with vpdpbusd.

#include "kernels/avx2/panel_avx2.h"

namespace kvick::kernels {
namespace {

// Returns what is subtracted from a value before it is multiplied: 0 for 8-bit values, which are
// made signed instead.
constexpr int zero_of(const PackFormat& f) { return f.value_bits == 8 ? 0 : f.zero; }

// Returns how many halves of a panel prompt_block_avx2.h multiplies together. Two fit into the
// registers if a group needs one kind of sum at a time: 16-bit sums that hold all 8 products, or
// 32-bit sums to which each product is added immediately.
constexpr int halves_together(const PackFormat& f) {
  const int fit = sums_in_16_bits(f.value_bits);
  return f.scale_group == 32 && (fit == 1 || fit == 8) ? kHalves : 1;
}

// Converts codes for multiply(). Those of 8 bits are q + 128 and are made signed again.
template <int kBits>
KVICK_INLINE __m256i factor_of(__m256i codes) {
  if constexpr (kBits < 8) return codes;
  return _mm256_xor_si256(codes, _mm256_set1_epi8(static_cast<char>(0x80)));
}

// Returns sums of pairs of products. The sign of a signed factor moves to the activation.
template <int kBits>
KVICK_INLINE __m256i multiply(__m256i factor, __m256i q) {
  if constexpr (kBits < 8) return _mm256_maddubs_epi16(factor, q);
  return _mm256_maddubs_epi16(_mm256_abs_epi8(factor), _mm256_sign_epi8(q, factor));
}

// Adds to `out` the dot products of registers [kFirst, kLast) of one group's codes with each token,
// for 8 rows.
template <DType kType, int kTokens, int kFirst, int kLast>
KVICK_INLINE void dot(const std::byte* planes, const int8_t* q, __m256i out[]) {
  constexpr int kBits = kPackFormats[static_cast<size_t>(kType)].value_bits;
  constexpr int kFit = sums_in_16_bits(kBits);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i pairs[kTokens];
  KVICK_UNROLL for (int t = 0; t < kTokens; ++t) pairs[t] = _mm256_setzero_si256();
  KVICK_UNROLL for (int j = kFirst; j < kLast; ++j) {
    const __m256i codes = factor_of<kBits>(load_values<kType>(planes, j));
    const bool first = (j - kFirst) % kFit == 0, last = (j - kFirst) % kFit == kFit - 1;
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      const __m256i product =
          multiply<kBits>(codes, broadcast4(q + t * static_cast<int>(kGroup) + 4 * j));
      pairs[t] = first ? product : _mm256_add_epi16(pairs[t], product);
      // Keeps g++ from reordering the sums: it would compute all products first, and spill them.
      asm("" : "+x"(pairs[t]));
      if (last || j == kLast - 1)
        out[t] = _mm256_add_epi32(out[t], _mm256_madd_epi16(pairs[t], ones));
    }
  }
}

// Sets `out` to the same products for unpacked codes of kCount halves.
template <DType kType, int kCount, int kTokens, int kFirst, int kLast>
KVICK_INLINE void dot_unpacked(const UnpackedCodes* codes, const int8_t* q,
                               __m256i out[][kTokens]) {
  constexpr int kBits = kPackFormats[static_cast<size_t>(kType)].value_bits;
  constexpr int kFit = sums_in_16_bits(kBits);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i pairs[kCount][kTokens];
  KVICK_UNROLL for (int j = kFirst; j < kLast; ++j) {
    const bool first = (j - kFirst) % kFit == 0, last = (j - kFirst) % kFit == kFit - 1;
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      const __m256i four = broadcast4(q + t * static_cast<int>(kGroup) + 4 * j);
      KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
        const __m256i product = multiply<kBits>(codes[c][j], four);
        pairs[c][t] = first ? product : _mm256_add_epi16(pairs[c][t], product);
        asm("" : "+x"(pairs[c][t]));  // as above
        if (last || j == kLast - 1) {
          const __m256i sums = _mm256_madd_epi16(pairs[c][t], ones);
          out[c][t] = j - kFirst < kFit ? sums : _mm256_add_epi32(out[c][t], sums);
          asm("" : "+x"(out[c][t]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvick::kernels
