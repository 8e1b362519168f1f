#pragma once
// Eight floats, AVX2+FMA+F16C. Included inside the target region of rows_avx2.cc only.
// Larger than a header should be because it has all operations of one instruction set.

namespace kvick::kernels {
namespace {

struct VecAvx2 {
  using F = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kTile = 4;  // queries of one register tile
  // Of one register tile: 16 registers hold no more together with the operands.
  static constexpr int kAccumulators = 8;
  static constexpr bool kCodeDots = false;

  static F zero() { return _mm256_setzero_ps(); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  // Loads the first n lanes, and zeros in the others. Does not read memory behind them.
  static F load_part(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static void store_part(float* p, F x, int n) { _mm256_maskstore_ps(p, first(n), x); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F nfma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  static float sum(F x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
  static float largest(F x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
  }
  // See vec_avx512.h.
  static F exp(F x) {
    const F magic = set(0x1.8p23F);
    const F shifted = fma(x, set(0x1.715476p+0F), magic);
    const F n = sub(shifted, magic);
    const F r = nfma(n, set(-0x1.05c610p-29F), nfma(n, set(0x1.62e430p-1F), x));
    F p = fma(set(0x1.6a2434p-10F), r, set(0x1.1239e2p-7F));
    p = fma(p, r, set(0x1.5558f2p-5F));
    p = fma(p, r, set(0x1.555492p-3F));
    p = fma(p, r, set(0x1.fffffcp-2F));
    p = fma(fma(p, r, set(1)), r, set(1));
    const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(p),
                                          _mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
    const F tiny = _mm256_cmp_ps(x, set(-87.336F), _CMP_LT_OQ);
    return _mm256_andnot_ps(tiny, _mm256_castsi256_ps(bits));
  }
  static uint32_t above(F x, F limit) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x, limit, _CMP_GT_OQ)));
  }
  // See vec_scalar.h.
  static F count_above(F sum, F x, F limit) {
    return add(sum, _mm256_and_ps(_mm256_cmp_ps(x, limit, _CMP_GT_OQ), set(1)));
  }
  static uint32_t indices_above(F x, F limit, uint32_t first, uint32_t* out) {
    uint32_t count = 0;
    for (uint32_t lanes = above(x, limit); lanes != 0; lanes &= lanes - 1)
      out[count++] = first + static_cast<uint32_t>(__builtin_ctz(lanes));
    return count;
  }

  template <DType T>
  static F load_row(const std::byte* p) {
    if constexpr (T == DType::kF32) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
    } else if constexpr (T == DType::kStatic8) {
      const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
    } else {
      const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      if constexpr (T == DType::kStatic16) return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(half));
      if constexpr (T == DType::kF16) return _mm256_cvtph_ps(half);
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
    }
  }
  template <DType T>
  static F load_row_part(const std::byte* p, int) {
    return load_row<T>(p);  // rows are a multiple of eight long
  }
  template <DType T>
  static void store_row(std::byte* p, F x) {
    __m128i half;
    if constexpr (T == DType::kF16) {
      half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else if constexpr (T == DType::kStatic16) {
      const __m256i codes = _mm256_cvtps_epi32(x);
      half = _mm_packs_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
    } else {
      const __m256i bits = _mm256_castps_si256(x);
      const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
      __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
      const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
      up = _mm256_blendv_epi8(up, _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)), nan);
      up = _mm256_srli_epi32(up, 16);
      half = _mm_packus_epi32(_mm256_castsi256_si128(up), _mm256_extracti128_si256(up, 1));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), half);
  }

  // See vec_scalar.h.
  static void store_codes(uint8_t* p, F x, int middle, int low, int high) {
    __m256i code = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(middle));
    code =
        _mm256_min_epi32(_mm256_max_epi32(code, _mm256_set1_epi32(low)), _mm256_set1_epi32(high));
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
    // Words are in [-127, 127], so saturation keeps the low byte.
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
  template <DType T>
  static F load_codes(const std::byte* row, uint32_t d) {
    if constexpr (T == DType::kQ8) {
      const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + d));
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
    }
    if constexpr (is_level_code(T)) return levels<T>(row + d / 32 * code_bytes(T, 32), d % 32);
    const __m128i pairs =
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + d / 32 * 16 + d % 16));
    const __m256i wide = _mm256_cvtepu8_epi32(pairs);
    const __m256i codes =
        d % 32 < 16 ? _mm256_and_si256(wide, _mm256_set1_epi32(15)) : _mm256_srli_epi32(wide, 4);
    if constexpr (T != DType::kQ4) return _mm256_cvtepi32_ps(codes);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(codes, _mm256_set1_epi32(code_range(T).middle)));
  }
  // See vec_avx512.h.
  template <DType T>
  static F levels(const std::byte* group, uint32_t d) {
    const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i codes = _mm256_srlv_epi32(
        _mm256_set1_epi32(static_cast<int>(word(group + d / 16 * 4) >> d % 16 * 2)),
        _mm256_add_epi32(steps, steps));
    if constexpr (T == DType::kQ2)
      return _mm256_permutevar8x32_ps(_mm256_setr_ps(3, 10, -3, -10, 3, 10, -3, -10), codes);
    const __m256i high =
        _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(word(group + 8) >> d)), steps);
    codes =
        _mm256_or_si256(_mm256_and_si256(codes, _mm256_set1_epi32(3)), _mm256_slli_epi32(high, 2));
    return _mm256_permutevar8x32_ps(_mm256_setr_ps(14, 43, 77, 123, -14, -43, -77, -123), codes);
  }
  static uint32_t word(const std::byte* p) {
    uint32_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
  }
  static F load_kivi(const std::byte* row, uint32_t d, float scale, float zero) {
    return fma(load_codes<DType::kKivi4V>(row, d), set(scale), set(zero));
  }
  static float half(const std::byte* p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return _cvtsh_ss(bits);
  }

  // -- dot products of keys: see attention_dots.h, vec_avx512.h --
  static constexpr uint32_t kChains = 8;
  static constexpr uint32_t kDotQueries = 4;  // queries of a register tile
  static constexpr uint32_t kDotSums = 8;     // sums that are added to at the same time
  static F load_query(const float* p) { return load(p); }
  template <DType T>
  static F load_keys(const std::byte* a, const std::byte*) {
    return load_row<T>(a);
  }
  // Returns the sums of four chains each of x[j] in lanes j and 4 + j.
  static F fold(const F (&x)[4]) {
    const F a = fold_ones(x[0], x[1]), b = fold_ones(x[2], x[3]);
    return add(_mm256_blend_ps(a, b, 0xcc), _mm256_shuffle_ps(a, b, 0x4e));
  }
  static F fold_ones(F a, F b) {
    return add(_mm256_blend_ps(a, b, 0xaa), _mm256_permute_ps(_mm256_blend_ps(a, b, 0x55), 0xb1));
  }
  // Returns the dots of keys 0 to 7. x[i] has keys 4 i to 4 i + 3.
  static F fold_rest(const F (&x)[2]) {
    return add(_mm256_blend_ps(x[0], x[1], 0xf0), _mm256_permute2f128_ps(x[0], x[1], 0x21));
  }
  // to[d * stride + i] = float d from rows[i] + offset on, for 8 rows and 4 dimensions.
  template <class Rows>
  static void transpose(const Rows& rows, size_t offset, float* to, size_t stride) {
    __m256 x[4];
    KVICK_UNROLL for (int i = 0; i < 4; ++i) x[i] = two(rows[i] + offset, rows[i + 4] + offset);
    const __m256 a = _mm256_unpacklo_ps(x[0], x[1]), b = _mm256_unpackhi_ps(x[0], x[1]);
    const __m256 c = _mm256_unpacklo_ps(x[2], x[3]), d = _mm256_unpackhi_ps(x[2], x[3]);
    store(to, _mm256_shuffle_ps(a, c, 0x44));
    store(to + stride, _mm256_shuffle_ps(a, c, 0xee));
    store(to + 2 * stride, _mm256_shuffle_ps(b, d, 0x44));
    store(to + 3 * stride, _mm256_shuffle_ps(b, d, 0xee));
  }
  static __m256 two(const std::byte* a, const std::byte* b) {
    const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(reinterpret_cast<const float*>(a)));
    return _mm256_insertf128_ps(low, _mm_loadu_ps(reinterpret_cast<const float*>(b)), 1);
  }
  // a, b: sixteen floats in memory order; even: those at even places.
  static void split_pairs(F a, F b, F& even, F& odd) {
    const F low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    even = _mm256_shuffle_ps(low, high, 0x88);
    odd = _mm256_shuffle_ps(low, high, 0xdd);
  }
  static void join_pairs(F even, F odd, F& a, F& b) {
    const F low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    a = _mm256_permute2f128_ps(low, high, 0x20);
    b = _mm256_permute2f128_ps(low, high, 0x31);
  }
};

}  // namespace
}  // namespace kvick::kernels
