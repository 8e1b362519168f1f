#pragma once
// Sixteen floats, AVX-512 F, BW, DQ, VL. Included inside the target region of rows_avx512.cc only.

namespace kvick::kernels {
namespace {

struct VecAvx512 {
  using F = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kTile = 8;           // queries of one register tile
  static constexpr int kAccumulators = 16;  // of one register tile

  static F zero() { return _mm512_setzero_ps(); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static __mmask16 first(int n) { return static_cast<__mmask16>((1U << n) - 1); }
  // The first n lanes, the others zero; memory behind them is not touched.
  static F load_part(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static void store_part(float* p, F x, int n) { _mm512_mask_storeu_ps(p, first(n), x); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F nfma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static float sum(F x) { return _mm512_reduce_add_ps(x); }
  static float largest(F x) { return _mm512_reduce_max_ps(x); }
  // e^x for x <= 88.7: x = n ln2 + r with |r| <= ln2/2, e^r by a polynomial of degree 6 (fitted for
  // relative error, 3e-9 before rounding), 2^n added into the exponent. Below 2^-126, where the
  // exponent would leave its field, zero: also because one subnormal operand makes an FMA a hundred
  // times slower.
  static F exp(F x) {
    const F magic = set(0x1.8p23F);  // adding it rounds to an integer, kept in the low bits
    const F shifted = fma(x, set(0x1.715476p+0F), magic);
    const F n = sub(shifted, magic);
    const F r = nfma(n, set(-0x1.05c610p-29F), nfma(n, set(0x1.62e430p-1F), x));
    F p = fma(set(0x1.6a2434p-10F), r, set(0x1.1239e2p-7F));
    p = fma(p, r, set(0x1.5558f2p-5F));
    p = fma(p, r, set(0x1.555492p-3F));
    p = fma(p, r, set(0x1.fffffcp-2F));
    p = fma(fma(p, r, set(1)), r, set(1));
    const __mmask16 keep = _mm512_cmp_ps_mask(x, set(-87.336F), _CMP_NLT_UQ);
    return _mm512_castsi512_ps(_mm512_maskz_add_epi32(
        keep, _mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
  }

  template <DType T>
  static F load_row(const std::byte* p) {
    if constexpr (T == DType::kF32) {
      return _mm512_loadu_ps(reinterpret_cast<const float*>(p));
    } else {
      return widen<T>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
  }
  template <DType T>
  static F load_row_part(const std::byte* p, int n) {
    if constexpr (T == DType::kF32) {
      return load_part(reinterpret_cast<const float*>(p), n);
    } else {
      return widen<T>(_mm256_maskz_loadu_epi16(first(n), p));
    }
  }
  template <DType T>
  static F widen(__m256i half) {
    if constexpr (T == DType::kF16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  // Not VCVTNEPS2BF16: it flushes subnormals.
  template <DType T>
  static void store_row(std::byte* p, F x) {
    __m256i half;
    if constexpr (T == DType::kF16) {
      half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
      const __m512i bits = _mm512_castps_si512(x);
      const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
      __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
      up = _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits,
                                _mm512_set1_epi32(0x400000));
      half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
  }

  // r[i][j] becomes r[j][i].
  static void transpose(F* r) {
    F t[16], u[16];
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
      u[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
      u[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
      u[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      u[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    // u[4q + c]: quarter l holds column 4l + c of rows 4q .. 4q+3.
    for (int c = 0; c < 4; ++c) {
      const F a = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88);       // columns c, c+8 of rows 0-7
      const F b = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);  // and of rows 8-15
      const F d = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);       // columns c+4, c+12
      const F e = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
      r[c] = _mm512_shuffle_f32x4(a, b, 0x88);
      r[c + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
      r[c + 4] = _mm512_shuffle_f32x4(d, e, 0x88);
      r[c + 12] = _mm512_shuffle_f32x4(d, e, 0xdd);
    }
  }
  // a, b: 32 floats in memory order; even: those at even places.
  static void split_pairs(F a, F b, F& even, F& odd) {
    const __m512i index =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    even = _mm512_permutex2var_ps(a, index, b);
    odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(index, _mm512_set1_epi32(1)), b);
  }
  static void join_pairs(F even, F odd, F& a, F& b) {
    const __m512i index = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    a = _mm512_permutex2var_ps(even, index, odd);
    b = _mm512_permutex2var_ps(even, _mm512_add_epi32(index, _mm512_set1_epi32(8)), odd);
  }
};

}  // namespace
}  // namespace kvick::kernels
