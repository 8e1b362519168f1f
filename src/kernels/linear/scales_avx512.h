#pragma once
// Internal to kernels/: the scales of a packed panel in AVX-512 registers. Included by
// panel_avx512.h, inside its target region.

namespace kvick::kernels {
namespace {

// Scales (and mins) of a group: one of each, or one per half.
struct Scales {
  __m512 scale[2], min[2];
};

KVICK_INLINE __m512 load_half(const std::byte* in) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(in)));
}
KVICK_INLINE __m512 bytes_to_f32(__m128i bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

// Returns 2^byte. The smallest two results are subnormal. (vscalefps may do better: docs/adr/0037.)
KVICK_INLINE __m512 exponents_to_f32(__m128i bytes) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtepi8_epi32(bytes), _mm512_set1_epi32(127));
  const __mmask16 small = _mm512_cmple_epi32_mask(exponent, _mm512_setzero_si512());
  return _mm512_castsi512_ps(
      _mm512_mask_srlv_epi32(_mm512_slli_epi32(exponent, 23), small, _mm512_set1_epi32(0x00400000),
                             _mm512_sub_epi32(_mm512_setzero_si512(), exponent)));
}
// Converts through float16: the shifted bits are a float16 whose exponent bias is 15 instead of 7.
KVICK_INLINE __m512 e4m3_to_f32(__m128i bytes, float unit) {
  const __m512 half = _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 7));
  return _mm512_mul_ps(half, _mm512_set1_ps(256 * unit));
}

// Loads the scale and min of a whole block, factors of those of its groups, in formats that have
// them.
template <DType kType>
KVICK_INLINE Scales load_super(const std::byte* block) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  Scales super;
  if constexpr (has_super(f)) {
    super.scale[0] = load_half(block);
    if constexpr (f.unit != 1)
      super.scale[0] = _mm512_mul_ps(super.scale[0], _mm512_set1_ps(f.unit));
    if constexpr (f.has_min) super.min[0] = load_half(block + kHalfRow);
  }
  return super;
}

template <DType kType>
KVICK_INLINE Scales load_scales(const std::byte* block, const Scales& super, uint32_t group) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  Scales s;
  if constexpr (f.scales == ScaleKind::kHalves) {
    s.scale[0] = load_half(block + group * kHalfRow);
    if constexpr (f.has_min) s.min[0] = load_half(block + kLine + group * kHalfRow);
    return s;
  }
  if constexpr (f.scales == ScaleKind::kHalf256) return super;
  const auto* sub = reinterpret_cast<const __m128i*>(block + sub_offset(f, group));
  const __m128i first = _mm_load_si128(sub);
  if constexpr (f.scales == ScaleKind::kE8M0) {
    s.scale[0] = exponents_to_f32(first);
    return s;
  }
  if constexpr (f.scale_group == 32 && !f.has_min) {
    s.scale[0] = _mm512_mul_ps(super.scale[0], bytes_to_f32(first));
    return s;
  }
  const __m128i second = _mm_load_si128(sub + 1);
  if constexpr (f.scales == ScaleKind::kE4M3) {
    s.scale[0] = e4m3_to_f32(first, f.unit);
    s.scale[1] = e4m3_to_f32(second, f.unit);
  } else if constexpr (f.scale_group == 32) {
    s.scale[0] = _mm512_mul_ps(super.scale[0], bytes_to_f32(first));
    s.min[0] = _mm512_mul_ps(super.min[0], bytes_to_f32(second));
  } else if constexpr (f.has_min) {
    const __m128i nibble = _mm_set1_epi8(15);
    s.scale[0] = _mm512_mul_ps(super.scale[0], bytes_to_f32(_mm_and_si128(first, nibble)));
    s.scale[1] = _mm512_mul_ps(super.scale[0], bytes_to_f32(_mm_and_si128(second, nibble)));
    s.min[0] =
        _mm512_mul_ps(super.min[0], bytes_to_f32(_mm_and_si128(_mm_srli_epi16(first, 4), nibble)));
    s.min[1] =
        _mm512_mul_ps(super.min[0], bytes_to_f32(_mm_and_si128(_mm_srli_epi16(second, 4), nibble)));
  } else {
    s.scale[0] = _mm512_mul_ps(super.scale[0], bytes_to_f32(first));
    s.scale[1] = _mm512_mul_ps(super.scale[0], bytes_to_f32(second));
  }
  return s;
}

}  // namespace
}  // namespace kvick::kernels
