#pragma once
// Sixteen floats, as vec_avx512.h, with VNNI for the products of codes. Included inside target
// regions that have it, after vec_avx512.h.

namespace kvick::kernels {
namespace {

// The parts of a query's integers are their high and low bytes: integer = 256 * high + low.
struct VecVnni : VecAvx512 {
  static I dot_first(I sum, I codes, const int8_t* q) {
    return _mm512_dpbusd_epi32(sum, codes, four_bytes(q));
  }
  static I dot_second(I sum, I codes, const int8_t* q) { return dot_first(sum, codes, q); }
  static F joined(I high, I low) {
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
  }
  static int32_t split_query(const float* x, int8_t* high, int8_t* low, float& scale) {
    I q0, q1;
    const int32_t total = quantise_query(x, scale, q0, q1);
    store_parts(q0, high, low);
    store_parts(q1, high + 16, low + 16);
    return total;
  }
  static void store_parts(I q, int8_t* high, int8_t* low) {
    const __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
    const __m512i rest = _mm512_sub_epi32(q, _mm512_slli_epi32(upper, 8));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(high), _mm512_cvtepi32_epi8(upper));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(low), _mm512_cvtepi32_epi8(rest));
  }
};

}  // namespace
}  // namespace kvick::kernels
