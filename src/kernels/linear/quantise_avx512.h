#pragma once
// Internal to kernels/: activations quantised with AVX-512. Included inside the target region of
// matmul_vnni.cc and matmul_avx512.cc.

namespace kvick::kernels {
namespace {

KVICK_INLINE __m512i round_to_even(__m512 v) {
  return _mm512_cvt_roundps_epi32(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

void quantise_group(const float* x, const GroupPlace& out) {
  const __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16);
  const __m512i mask = _mm512_set1_epi32(0x7fffffff);
  // Compares as integers, so that NaN wins.
  const __m512i magnitude = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x0), mask),
                                             _mm512_and_si512(_mm512_castps_si512(x1), mask));
  const uint32_t bits = _mm512_reduce_max_epu32(magnitude);
  const float max = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
  const bool finite = bits < 0x7f800000u;
  if (!finite || max < kTinyActivation) {
    *out.scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    *out.sums[0] = *out.sums[1] = 0;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q), _mm256_setzero_si256());
    return;
  }
  const __m512 inverse = _mm512_set1_ps(127.0f / max);
  const __m512i q0 = round_to_even(_mm512_mul_ps(x0, inverse));
  const __m512i q1 = round_to_even(_mm512_mul_ps(x1, inverse));
  const __m256i q = _mm256_set_m128i(_mm512_cvtepi32_epi8(q1), _mm512_cvtepi32_epi8(q0));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q), q);
  *out.scale = max / 127.0f;
  // Sums of eight bytes, made unsigned by adding 128 to each.
  const __m256i eights =
      _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
  const __m256i sixteens = _mm256_add_epi64(eights, _mm256_bsrli_epi128(eights, 8));
  *out.sums[0] = _mm256_cvtsi256_si32(sixteens) - 16 * 128;
  *out.sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(sixteens, 1)) - 16 * 128;
}

void quantise(Activations& a, Range tokens, Range groups) {
  for (uint32_t t = tokens.begin; t < tokens.end; ++t) {
    const TokenPlace place = token_place(a.tokens, t);
    for (uint32_t g = groups.begin; g < groups.end; ++g)
      quantise_group(a.x + size_t{t} * a.inputs + size_t{g} * kGroup, group_place(a, place, g));
  }
}

}  // namespace
}  // namespace kvick::kernels
