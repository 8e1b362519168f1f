#pragma once
// Internal to kernels/: loads packed panels with AVX2, as two halves of 8 rows. Included inside a
// target region.

#include "kernels/linear/matmul.h"

namespace kvick::kernels {
namespace {

constexpr int kHalves = 2;  // of a panel
constexpr int kLanes = 8;
using UnpackedCodes = __m256i[8];  // of one group and half a panel

KVICK_INLINE __m256i line(const std::byte* in, int i) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(in + i * static_cast<int>(kLine)));
}

// Shifts the bits of `in` from position `from` to position `to`, and clears all but `mask` of each
// byte.
KVICK_INLINE __m256i bits_at(__m256i in, int from, int to, char mask) {
  const __m256i moved = from > to   ? _mm256_srli_epi16(in, from - to)
                        : from < to ? _mm256_slli_epi16(in, to - from)
                                    : in;
  return _mm256_and_si256(moved, _mm256_set1_epi8(mask));
}

// Returns register j of the codes of 8 rows; `planes` points at their half of the first line.
template <int kBits>
KVICK_INLINE __m256i load_codes(const std::byte* planes, int j) {
  if constexpr (kBits == 8) return line(planes, j);
  if constexpr (kBits < 4) {
    const __m256i low = bits_at(line(planes, j / 4), j % 4 * 2, 0, 3);
    if constexpr (kBits == 2) return low;
    return _mm256_or_si256(low, bits_at(line(planes, 2), j, 2, 4));
  }
  const __m256i low = bits_at(line(planes, j % 4), j / 4 * 4, 0, 15);
  if constexpr (kBits == 5) return _mm256_or_si256(low, bits_at(line(planes, 4), j, 4, 0x10));
  if constexpr (kBits == 6)
    return _mm256_or_si256(low, bits_at(line(planes, 4 + j / 4), j % 4 * 2, 4, 0x30));
  return low;
}

// Returns the values u of that register. Codes of a table are looked up.
template <DType kType>
KVICK_INLINE __m256i load_values(const std::byte* planes, int j) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  const __m256i codes = load_codes<f.bits>(planes, j);
  if constexpr (f.codebook == nullptr) {
    return codes;
  } else {
    const auto* table = reinterpret_cast<const __m128i*>(f.codebook->u);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_load_si128(table)), codes);
  }
}

// Scales (and mins) of a group for 8 rows: one of each, or one per half of the inputs.
struct Scales {
  __m256 scale[2], min[2];
};

KVICK_INLINE __m256 load_half(const std::byte* in) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(in)));
}
KVICK_INLINE __m256 bytes_to_f32(__m128i bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

// Returns 2^byte, which is subnormal for the smallest two exponents.
KVICK_INLINE __m256 exponents_to_f32(__m128i bytes) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtepi8_epi32(bytes), _mm256_set1_epi32(127));
  const __m256i normal = _mm256_slli_epi32(exponent, 23);
  const __m256i subnormal = _mm256_srlv_epi32(_mm256_set1_epi32(0x00400000),
                                              _mm256_sub_epi32(_mm256_setzero_si256(), exponent));
  const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(1), exponent);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, small));
}
// See scales_avx512.h.
KVICK_INLINE __m256 e4m3_to_f32(__m128i bytes, float unit) {
  const __m256 half = _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(bytes), 7));
  return _mm256_mul_ps(half, _mm256_set1_ps(256 * unit));
}
KVICK_INLINE __m128i load_bytes(const std::byte* in) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
}

template <DType kType>
KVICK_INLINE Scales load_scales(const std::byte* block, uint32_t group, int half) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr size_t kHalfBytes = kHalfRow / kHalves;
  Scales s;
  const std::byte* sub = block + sub_offset(f, group) + half * kLanes;
  if constexpr (f.scales == ScaleKind::kE8M0) {
    s.scale[0] = exponents_to_f32(load_bytes(sub));
    return s;
  }
  if constexpr (f.scales == ScaleKind::kE4M3) {
    s.scale[0] = e4m3_to_f32(load_bytes(sub), f.unit);
    s.scale[1] = e4m3_to_f32(load_bytes(sub + kPanel), f.unit);
    return s;
  }
  if constexpr (f.scales == ScaleKind::kHalves) {
    s.scale[0] = load_half(block + group * kHalfRow + half * kHalfBytes);
    if constexpr (f.has_min)
      s.min[0] = load_half(block + kLine + group * kHalfRow + half * kHalfBytes);
    return s;
  }
  __m256 d = load_half(block + half * kHalfBytes);
  if constexpr (f.unit != 1) d = _mm256_mul_ps(d, _mm256_set1_ps(f.unit));
  if constexpr (f.scales == ScaleKind::kHalf256) {
    s.scale[0] = d;
    return s;
  }
  const __m128i first = load_bytes(sub);
  if constexpr (f.scale_group == 32 && !f.has_min) {
    s.scale[0] = _mm256_mul_ps(d, bytes_to_f32(first));
    return s;
  }
  const __m256 m = load_half(block + kHalfRow + half * kHalfBytes);
  const __m128i second = load_bytes(sub + kPanel);
  if constexpr (f.scale_group == 32) {
    s.scale[0] = _mm256_mul_ps(d, bytes_to_f32(first));
    s.min[0] = _mm256_mul_ps(m, bytes_to_f32(second));
  } else if constexpr (f.has_min) {
    const __m128i nibble = _mm_set1_epi8(15), both[2] = {first, second};
    for (int h = 0; h < 2; ++h) {
      s.scale[h] = _mm256_mul_ps(d, bytes_to_f32(_mm_and_si128(both[h], nibble)));
      s.min[h] = _mm256_mul_ps(m, bytes_to_f32(_mm_and_si128(_mm_srli_epi16(both[h], 4), nibble)));
    }
  } else {
    s.scale[0] = _mm256_mul_ps(d, bytes_to_f32(first));
    s.scale[1] = _mm256_mul_ps(d, bytes_to_f32(second));
  }
  return s;
}

KVICK_INLINE __m256i broadcast4(const int8_t* q) {
  int32_t four;
  __builtin_memcpy(&four, q, 4);
  return _mm256_set1_epi32(four);
}

}  // namespace
}  // namespace kvick::kernels
