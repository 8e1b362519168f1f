#pragma once
// Sixteen floats, AVX-512 F, BW, DQ, VL. Included inside target regions with at least these.
// Larger than a header should be because it has all operations of one instruction set.

namespace kvick::kernels {
namespace {

struct VecAvx512 {
  using F = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kTile = 8;           // queries of one register tile
  static constexpr int kAccumulators = 16;  // of one register tile
  static constexpr bool kCodeDots = true;
  using I = __m512i;

  static F zero() { return _mm512_setzero_ps(); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static __mmask16 first(int n) { return static_cast<__mmask16>((1U << n) - 1); }
  // Loads the first n lanes, and zeros in the others. Does not read memory behind them.
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
  // Returns e^x for x <= 88.7. x = n ln2 + r with |r| <= ln2/2, e^r is a polynomial of degree 6
  // (fitted for relative error, 3e-9 before rounding), and n is added to its exponent. Results
  // below 2^-126, where the exponent would leave its field, are zero, also because one subnormal
  // operand makes an FMA a hundred times slower.
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
  // See vec_scalar.h.
  static F count_above(F sum, F x, F limit) {
    return _mm512_mask_add_ps(sum, _mm512_cmp_ps_mask(x, limit, _CMP_GT_OQ), sum, set(1));
  }
  static uint32_t indices_above(F x, F limit, uint32_t f, uint32_t* out) {
    const __mmask16 lanes = _mm512_cmp_ps_mask(x, limit, _CMP_GT_OQ);
    const __m512i all =
        _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(f)),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const int count = __builtin_popcount(lanes);
    _mm512_mask_storeu_epi32(out, first(count), _mm512_maskz_compress_epi32(lanes, all));
    return static_cast<uint32_t>(count);
  }

  template <DType T>
  static F load_row(const std::byte* p) {
    if constexpr (T == DType::kF32) {
      return _mm512_loadu_ps(reinterpret_cast<const float*>(p));
    } else if constexpr (T == DType::kStatic8) {
      return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    } else {
      return widen<T>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
  }
  template <DType T>
  static F load_row_part(const std::byte* p, int n) {
    if constexpr (T == DType::kF32) {
      return load_part(reinterpret_cast<const float*>(p), n);
    } else if constexpr (T == DType::kStatic8) {
      return widen(_mm_maskz_loadu_epi8(first(n), p));
    } else {
      return widen<T>(_mm256_maskz_loadu_epi16(first(n), p));
    }
  }
  template <DType T>
  static F widen(__m256i half) {
    if constexpr (T == DType::kF16) return _mm512_cvtph_ps(half);
    if constexpr (T == DType::kStatic16) return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(half));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static F widen(__m128i codes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)); }
  // Does not use VCVTNEPS2BF16, which flushes subnormals.
  template <DType T>
  static void store_row(std::byte* p, F x) {
    __m256i half;
    if constexpr (T == DType::kF16) {
      half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else if constexpr (T == DType::kStatic16) {
      half = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x));
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

  // See vec_scalar.h.
  static void store_codes(uint8_t* p, F x, int middle, int low, int high) {
    __m512i code = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(middle));
    code =
        _mm512_min_epi32(_mm512_max_epi32(code, _mm512_set1_epi32(low)), _mm512_set1_epi32(high));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(code));
  }
  template <DType T>
  static F load_codes(const std::byte* row, uint32_t d) {
    if constexpr (T == DType::kQ8) {
      const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + d));
      return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
    }
    if constexpr (is_level_code(T)) return levels<T>(row + d / 32 * code_bytes(T, 32), d % 32);
    return T == DType::kQ4 ? pick(nibbles(row, d), _mm512_sub_ps(code_values(), set(8)))
                           : pick(nibbles(row, d), code_values());
  }
  // Returns levels d, d + 1, ... of a group. Bits above a code do not matter, because the numbers
  // repeat.
  template <DType T>
  static F levels(const std::byte* group, uint32_t d) {
    I codes = _mm512_srlv_epi32(
        word_of(group + d / 4),
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
    if constexpr (T == DType::kQ2)
      return pick(codes,
                  _mm512_setr_ps(3, 10, -3, -10, 3, 10, -3, -10, 3, 10, -3, -10, 3, 10, -3, -10));
    const I high = _mm512_srlv_epi32(
        _mm512_srl_epi32(word_of(group + 8), _mm_cvtsi32_si128(static_cast<int>(d))),
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    codes =
        _mm512_or_si512(_mm512_and_si512(codes, _mm512_set1_epi32(3)), _mm512_slli_epi32(high, 2));
    return pick(codes, _mm512_setr_ps(14, 43, 77, 123, -14, -43, -77, -123, 14, 43, 77, 123, -14,
                                      -43, -77, -123));
  }
  static I word_of(const std::byte* p) {
    int32_t word;
    std::memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
  }
  // Returns codes d, d + 1, ... in the low 4 bits of lanes. The bits above may hold other codes.
  static I nibbles(const std::byte* row, uint32_t d) {
    const __m512i wide =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + d / 32 * 16)));
    return d % 32 < 16 ? wide : next_codes(wide);
  }
  static I next_codes(I codes) { return _mm512_srli_epi32(codes, 4); }
  // Returns the number that the low four bits of each lane select.
  static F pick(I codes, F numbers) { return _mm512_permutexvar_ps(codes, numbers); }
  // Returns the values of codes 0 to 15.
  static F code_numbers(float scale, float zero) {
    return fma(code_values(), set(scale), set(zero));
  }
  static F code_values() {
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
  static F load_kivi(const std::byte* row, uint32_t d, float scale, float zero) {
    return pick(nibbles(row, d), code_numbers(scale, zero));
  }
  // Returns half `which` of 16 pairs of float16.
  static F half_of_pairs(const std::byte* p, uint32_t which) {
    const __m512i pairs = _mm512_loadu_si512(p);
    return _mm512_cvtph_ps(
        _mm512_cvtepi32_epi16(which == 0 ? pairs : _mm512_srli_epi32(pairs, 16)));
  }
  static float half(const std::byte* p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return _cvtsh_ss(bits);
  }

  // -- products of codes --
  static I zeros() { return _mm512_setzero_si512(); }
  static I set_int(int32_t x) { return _mm512_set1_epi32(x); }
  // split_query() stores a query's 16-bit integers in two parts, and codes are multiplied with
  // each. Here the first part is the integers of even dimensions, the second those of odd ones.
  // dot_first() returns sum + the products of 4 codes of each row with the first part, whose 4
  // bytes are at q.
  static I dot_first(I sum, I codes, const int8_t* q) {
    return _mm512_add_epi32(
        sum, _mm512_madd_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(255)), four_bytes(q)));
  }
  static I dot_second(I sum, I codes, const int8_t* q) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_srli_epi16(codes, 8), four_bytes(q)));
  }
  static I four_bytes(const int8_t* q) {
    int32_t four;
    std::memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
  }
  // Returns the dot products, from their sums over both parts.
  static F joined(I first_part, I second_part) {
    return _mm512_cvtepi32_ps(_mm512_add_epi32(first_part, second_part));
  }
  // Returns four transposed codes of 16 rows as unsigned ones. With kQ4 the low halves of bytes are
  // codes of the group's first 16, the high halves (`high`) those of its last 16.
  template <DType T>
  static I unsigned_codes(const float* p, bool high) {
    const __m512i codes = _mm512_loadu_si512(p);
    if constexpr (T == DType::kQ8) return _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
    return _mm512_and_si512(high ? _mm512_srli_epi16(codes, 4) : codes, _mm512_set1_epi8(15));
  }
  // Rounds 32 floats to 16-bit integers, where integer * scale is about x. Returns their sum.
  // Writes 32 bytes to each part.
  static int32_t split_query(const float* x, int8_t* even, int8_t* odd, float& scale) {
    I q0, q1;
    const int32_t total = quantise_query(x, scale, q0, q1);
    const __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(q0)),
                                           _mm512_cvtepi32_epi16(q1), 1);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(even), _mm512_cvtepi32_epi16(all));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(odd),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 16)));
    return total;
  }
  static int32_t quantise_query(const float* x, float& scale, I& q0, I& q1) {
    const __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16);
    const float most = largest(_mm512_max_ps(_mm512_abs_ps(x0), _mm512_abs_ps(x1)));
    constexpr float kMost = 127 * 256;  // so high parts fit into a byte (vec_vnni.h)
    scale = most / kMost + sum(fma(x0, zero(), mul(x1, zero())));  // NaN if x is not finite
    const bool empty = !(most >= 1e-30F) || scale != scale;
    const __m512 inverse = set(empty ? 0 : kMost / most);
    q0 = _mm512_cvtps_epi32(mul(x0, inverse));
    q1 = _mm512_cvtps_epi32(mul(x1, inverse));
    return _mm512_reduce_add_epi32(_mm512_add_epi32(q0, q1));
  }

  // -- dot products of keys: see attention_dots.h --
  static constexpr uint32_t kChains = 8;
  static constexpr uint32_t kDotQueries = 4;  // queries of a register tile
  static constexpr uint32_t kDotSums = 16;    // sums that are added to at the same time
  // Loads the same eight elements for both keys of a vector.
  static F load_query(const float* p) { return _mm512_broadcast_f32x8(_mm256_loadu_ps(p)); }
  // Loads eight elements of each of two keys.
  template <DType T>
  static F load_keys(const std::byte* a, const std::byte* b) {
    if constexpr (T == DType::kF32) {
      const __m256 low = _mm256_loadu_ps(reinterpret_cast<const float*>(a));
      return _mm512_insertf32x8(_mm512_castps256_ps512(low),
                                _mm256_loadu_ps(reinterpret_cast<const float*>(b)), 1);
    } else if constexpr (T == DType::kStatic8) {
      return widen(_mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(a)),
                                      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(b))));
    } else {
      const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
      return widen<T>(_mm256_inserti128_si256(
          _mm256_castsi128_si256(low), _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1));
    }
  }
  // Each step adds neighbouring sums of two vectors: of every pair of neighbours, one stays in its
  // lane and the other moves there. Returns the sums of four chains each of x[j], which holds two
  // keys, in lanes j and 4 + j of either half.
  static F fold(const F (&x)[4]) {
    const F a = fold_ones(x[0], x[1]), b = fold_ones(x[2], x[3]);
    return add(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e));
  }
  // Adds lanes 2 i and 2 i + 1: those of a into lane 2 i, those of b into lane 2 i + 1.
  static F fold_ones(F a, F b) {
    const F moved = _mm512_permute_ps(_mm512_mask_blend_ps(0x5555, a, b), 0xb1);
    return add(_mm512_mask_blend_ps(0xaaaa, a, b), moved);
  }
  // Returns the dots of keys 0 to 15. x[i] has keys 4 i to 4 i + 3, and the keys 8 further on.
  static F fold_rest(const F (&x)[2]) {
    const __m512i others = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
    const __m512d moved =
        _mm512_permutex2var_pd(_mm512_castps_pd(x[0]), others, _mm512_castps_pd(x[1]));
    return add(_mm512_mask_blend_ps(0xf0f0, x[0], x[1]), _mm512_castpd_ps(moved));
  }

  // Transposes rows of four-byte elements: to[d * stride + i] = element d from rows[i] + offset on,
  // for `Pieces` times 4 elements of 16 rows. Each register is assembled from four rows by masked
  // broadcasts, which are loads and blends, so only the steps within 128 bits are shuffles: 32 for
  // 256 elements, against 64 in the textbook transpose of whole rows. Two pieces at a time save
  // computing each address again, since there are more rows than registers.
  template <int Pieces = 1, class Rows>
  [[gnu::always_inline]] static void transpose(const Rows& rows, size_t offset, float* to,
                                               size_t stride) {
    __m512 x[Pieces][4];
    KVICK_UNROLL for (int i = 0; i < 4; ++i) {
      const std::byte *a = rows[i] + offset, *b = rows[i + 4] + offset;
      const std::byte *c = rows[i + 8] + offset, *d = rows[i + 12] + offset;
      KVICK_UNROLL for (int piece = 0; piece < Pieces; ++piece) x[piece][i] =
          four(a + 16 * piece, b + 16 * piece, c + 16 * piece, d + 16 * piece);
    }
    KVICK_UNROLL for (int piece = 0; piece < Pieces; ++piece)
        store_columns(x[piece], to + piece * 4 * stride, stride);
  }
  [[gnu::always_inline]] static void store_columns(const __m512* x, float* to, size_t stride) {
    const __m512 a = _mm512_unpacklo_ps(x[0], x[1]), b = _mm512_unpackhi_ps(x[0], x[1]);
    const __m512 c = _mm512_unpacklo_ps(x[2], x[3]), d = _mm512_unpackhi_ps(x[2], x[3]);
    store(to, _mm512_shuffle_ps(a, c, 0x44));
    store(to + stride, _mm512_shuffle_ps(a, c, 0xee));
    store(to + 2 * stride, _mm512_shuffle_ps(b, d, 0x44));
    store(to + 3 * stride, _mm512_shuffle_ps(b, d, 0xee));
  }
  static __m128 part(const std::byte* p) { return _mm_loadu_ps(reinterpret_cast<const float*>(p)); }
  static __m512 four(const std::byte* a, const std::byte* b, const std::byte* c,
                     const std::byte* d) {
    __m512 x = _mm512_castps128_ps512(part(a));
    x = _mm512_insertf32x4(x, part(b), 1);
    x = _mm512_insertf32x4(x, part(c), 2);
    return _mm512_insertf32x4(x, part(d), 3);
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
