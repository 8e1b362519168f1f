#pragma once
// Internal to kernels/: a packed panel's codes and scales in AVX-512 registers. Included inside the
// target region of the files that read panels with AVX-512, after their other headers.

#include "kernels/linear/scales_avx512.h"

namespace kvick::kernels {
namespace {

// Integer sums that start at the bits of this float instead of 0 are floats without a conversion.
// They are kFloatStart + dot, exactly, as |dot| <= 32 * 128 * 127 < 2^22. Then (kFloatStart + dot)
// * scale + (-kFloatStart * scale), rounded once, is dot * scale, rounded once: kFloatStart * scale
// is exact, since a scale has at most 19 significant bits and kFloatStart has two.
constexpr float kFloatStart = 0x1.8p23F;
constexpr int32_t kFloatStartBits = 0x4b400000;

KVICK_INLINE void prefetch(const Ahead& ahead, const std::byte* at, size_t bytes) {
  KVICK_UNROLL for (size_t i = 0; i < bytes; i += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(at + ahead.far + i), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(at + ahead.near + i), _MM_HINT_T0);
  }
}

KVICK_INLINE __m512i line(const std::byte* in, int i) {
  return _mm512_load_si512(in + i * static_cast<int>(kLine));
}

// Shifts the bits of `in` from position `from` to position `to`. The caller masks the bits around
// them.
KVICK_INLINE __m512i shifted(__m512i in, int from, int to) {
  return from > to   ? _mm512_srli_epi16(in, static_cast<unsigned>(from - to))
         : from < to ? _mm512_slli_epi16(in, static_cast<unsigned>(to - from))
                     : in;
}

// (in & mask) | rest, in one operation.
KVICK_INLINE __m512i masked_or(__m512i in, __m512i mask, __m512i rest) {
  return _mm512_ternarylogic_epi32(in, mask, rest, 0xea);
}

// Loads the codes of a group from its planes.
template <int kBits>
KVICK_INLINE void load_codes(const std::byte* planes, __m512i w[8]) {
  if constexpr (kBits == 8) {
    KVICK_UNROLL for (int j = 0; j < 8; ++j) w[j] = line(planes, j);
  } else if constexpr (kBits >= 4) {
    const __m512i nibble = _mm512_set1_epi8(15);
    KVICK_UNROLL for (int j = 0; j < 4; ++j) {
      const __m512i both = line(planes, j);
      w[j] = _mm512_and_si512(both, nibble);
      w[j + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
    }
    if constexpr (kBits == 5) {
      const __m512i high = line(planes, 4), bit = _mm512_set1_epi8(0x10);
      KVICK_UNROLL for (int j = 0; j < 8; ++j) w[j] = masked_or(shifted(high, j, 4), bit, w[j]);
    }
    if constexpr (kBits == 6) {
      const __m512i bits = _mm512_set1_epi8(0x30);
      KVICK_UNROLL for (int j = 0; j < 8; ++j) w[j] =
          masked_or(shifted(line(planes, 4 + j / 4), j % 4 * 2, 4), bits, w[j]);
    }
  } else {
    const __m512i pair = _mm512_set1_epi8(3);
    KVICK_UNROLL for (int j = 0; j < 8; ++j) w[j] =
        _mm512_and_si512(shifted(line(planes, j / 4), j % 4 * 2, 0), pair);
    if constexpr (kBits == 3) {
      const __m512i high = line(planes, 2), bit = _mm512_set1_epi8(4);
      KVICK_UNROLL for (int j = 0; j < 8; ++j) w[j] = masked_or(shifted(high, j, 2), bit, w[j]);
    }
  }
}

// Loads the values u of a group. Codes of a table are looked up, which takes one more operation per
// 64 weights. With vpermb it takes none, because vpermb reads only the low six bits of a byte and
// so needs no masks (KVICK_HAS_VBMI).
template <DType kType>
KVICK_INLINE void load_values(const std::byte* planes, __m512i w[8]) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
#if defined(KVICK_HAS_VBMI)
  if constexpr (f.codebook != nullptr && f.bits == 4) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(f.codebook->u)));
    KVICK_UNROLL for (int j = 0; j < 4; ++j) {
      const __m512i both = line(planes, j);
      w[j] = _mm512_permutexvar_epi8(both, table);
      w[j + 4] = _mm512_permutexvar_epi8(_mm512_srli_epi16(both, 4), table);
    }
    return;
  }
#endif
  load_codes<f.bits>(planes, w);
  if constexpr (f.codebook != nullptr) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(f.codebook->u)));
    KVICK_UNROLL for (int j = 0; j < 8; ++j) w[j] = _mm512_shuffle_epi8(table, w[j]);
  }
}

}  // namespace
}  // namespace kvick::kernels
