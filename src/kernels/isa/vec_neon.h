#pragma once
// Four floats, the NEON that every AArch64 processor has.
// Larger than a header should be because it has all operations of one instruction set.

namespace kvick::kernels {
namespace {

struct VecNeon {
  using F = float32x4_t;
  static constexpr int kLanes = 4;
  // Of one register tile: 16 accumulators, 2 to 4 vectors and the broadcasts fit 32 registers.
  static constexpr int kTile = 8;  // queries
  static constexpr int kAccumulators = 16;
  static constexpr bool kCodeDots = false;

  static F zero() { return vdupq_n_f32(0); }
  static F set(float x) { return vdupq_n_f32(x); }
  static F load(const float* p) { return vld1q_f32(p); }
  // Loads the first n lanes, and zeros in the others. Does not read memory behind them.
  static F load_part(const float* p, int n) {
    float lanes[kLanes] = {};
    for (int i = 0; i < n && i < kLanes; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  static void store(float* p, F x) { vst1q_f32(p, x); }
  static void store_part(float* p, F x, int n) {
    float lanes[kLanes];
    store(lanes, x);
    for (int i = 0; i < n && i < kLanes; ++i) p[i] = lanes[i];
  }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  // If a or b is NaN, these return b, as in all instruction sets. FMAX would return NaN.
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F nfma(F a, F b, F c) { return vfmsq_f32(c, a, b); }
  static float sum(F x) { return vaddvq_f32(x); }
  static float largest(F x) {
    const F half = max(x, vextq_f32(x, x, 2));
    return vgetq_lane_f32(max(half, vextq_f32(half, half, 1)), 0);
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
    const uint32x4_t bits =
        vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23));
    return vreinterpretq_f32_u32(vbicq_u32(bits, vcltq_f32(x, set(-87.336F))));
  }
  // See vec_scalar.h.
  static F count_above(F sum, F x, F limit) {
    const uint32x4_t one = vreinterpretq_u32_f32(set(1));
    return add(sum, vreinterpretq_f32_u32(vandq_u32(vcgtq_f32(x, limit), one)));
  }
  static uint32_t indices_above(F x, F limit, uint32_t first, uint32_t* out) {
    const uint32x4_t lanes = vcgtq_f32(x, limit);
    if (vmaxvq_u32(lanes) == 0) return 0;
    uint32_t above[kLanes], count = 0;
    vst1q_u32(above, lanes);
    for (uint32_t i = 0; i < kLanes; ++i)
      if (above[i] != 0) out[count++] = first + i;
    return count;
  }

  template <DType T>
  static F load_row(const std::byte* p) {
    if constexpr (T == DType::kF32) {
      return vld1q_f32(reinterpret_cast<const float*>(p));
    } else if constexpr (T == DType::kStatic8) {
      return signed_bytes(p);
    } else {
      return widen<T>(vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(p))));
    }
  }
  template <DType T>
  static F load_row_part(const std::byte* p, int) {
    return load_row<T>(p);  // rows are a multiple of eight long
  }
  template <DType T>
  static F widen(uint16x4_t half) {
    if constexpr (T == DType::kF16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
    if constexpr (T == DType::kStatic16)
      return vcvtq_f32_s32(vmovl_s16(vreinterpret_s16_u16(half)));
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
  }
  template <DType T>
  static void store_row(std::byte* p, F x) {
    uint16x4_t half;
    if constexpr (T == DType::kF16) {
      half = vreinterpret_u16_f16(vcvt_f16_f32(x));
    } else if constexpr (T == DType::kStatic16) {
      half = vreinterpret_u16_s16(vmovn_s32(vcvtnq_s32_f32(x)));
    } else {
      const uint32x4_t bits = vreinterpretq_u32_f32(x);
      const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
      const uint32x4_t up = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
      const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
      half = vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), up, quiet), 16);
    }
    vst1_u8(reinterpret_cast<uint8_t*>(p), vreinterpret_u8_u16(half));
  }

  // See vec_scalar.h.
  static void store_codes(uint8_t* p, F x, int middle, int low, int high) {
    int32x4_t code = vaddq_s32(vcvtnq_s32_f32(x), vdupq_n_s32(middle));
    code = vminq_s32(vmaxq_s32(code, vdupq_n_s32(low)), vdupq_n_s32(high));
    const int16x4_t words = vmovn_s32(code);
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    __builtin_memcpy(p, &bytes, kLanes);
  }
  // Loads four bytes and widens them.
  static uint16x4_t bytes(const std::byte* p) {
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))));
  }
  static F signed_bytes(const std::byte* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const int16x8_t words = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
  }
  template <DType T>
  static F load_codes(const std::byte* row, uint32_t d) {
    if constexpr (T == DType::kQ8) return signed_bytes(row + d);
    if constexpr (is_level_code(T)) return levels<T>(row + d / 32 * code_bytes(T, 32), d % 32);
    const uint16x4_t pairs = bytes(row + d / 32 * 16 + d % 16);
    const uint16x4_t half = d % 32 < 16 ? vand_u16(pairs, vdup_n_u16(15)) : vshr_n_u16(pairs, 4);
    const int32x4_t codes = vreinterpretq_s32_u32(vmovl_u16(half));
    if constexpr (T != DType::kQ4) return vcvtq_f32_s32(codes);
    return vcvtq_f32_s32(vsubq_s32(codes, vdupq_n_s32(code_range(T).middle)));
  }
  // See vec_avx512.h. A code selects the lowest byte of its lane. The indices of the bytes above
  // are out of range, which gives zeros.
  template <DType T>
  static F levels(const std::byte* group, uint32_t d) {
    constexpr int32_t kSteps[] = {0, -1, -2, -3}, kPairs[] = {0, -2, -4, -6};
    constexpr int8_t kQ2Levels[16] = {3, 10, -3, -10};
    constexpr int8_t kQ3Levels[16] = {14, 43, 77, 123, -14, -43, -77, -123};
    const uint32x4_t low = vdupq_n_u32(word(group + d / 16 * 4) >> d % 16 * 2);
    uint32x4_t codes = vandq_u32(vshlq_u32(low, vld1q_s32(kPairs)), vdupq_n_u32(3));
    if constexpr (T == DType::kQ3) {
      const uint32x4_t high = vshlq_u32(vdupq_n_u32(word(group + 8) >> d), vld1q_s32(kSteps));
      codes = vorrq_u32(codes, vshlq_n_u32(vandq_u32(high, vdupq_n_u32(1)), 2));
    }
    const uint8x16_t picks = vreinterpretq_u8_u32(vorrq_u32(codes, vdupq_n_u32(0xffffff00)));
    const int8x16_t levels = vqtbl1q_s8(vld1q_s8(T == DType::kQ3 ? kQ3Levels : kQ2Levels), picks);
    return vcvtq_f32_s32(vshrq_n_s32(vshlq_n_s32(vreinterpretq_s32_s8(levels), 24), 24));
  }
  static uint32_t word(const std::byte* p) {
    uint32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    return word;
  }
  static F load_kivi(const std::byte* row, uint32_t d, float scale, float zero) {
    return fma(load_codes<DType::kKivi4V>(row, d), set(scale), set(zero));
  }
  static float half(const std::byte* p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
  }

  // -- dot products of keys: see attention_dots.h --
  static constexpr uint32_t kChains = 4;
  static constexpr uint32_t kDotQueries = 4;
  static constexpr uint32_t kDotSums = 16;  // sums that are added to at the same time
  static F load_query(const float* p) { return load(p); }
  template <DType T>
  static F load_keys(const std::byte* a, const std::byte*) {
    return load_row<T>(a);
  }
  static F fold(const F (&x)[4]) {
    return vpaddq_f32(vpaddq_f32(x[0], x[1]), vpaddq_f32(x[2], x[3]));
  }
  static F fold_rest(const F (&x)[1]) { return x[0]; }
  // to[d * stride + i] = float d from rows[i] + offset on, for 4 rows and 4 dimensions.
  template <class Rows>
  static void transpose(const Rows& rows, size_t offset, float* to, size_t stride) {
    uint32x4_t x[4], y[4];
    KVICK_UNROLL for (int i = 0; i < 4; ++i) x[i] =
        vld1q_u32(reinterpret_cast<const uint32_t*>(rows[i] + offset));
    KVICK_UNROLL for (int i = 0; i < 4; i += 2) {
      y[i] = vtrn1q_u32(x[i], x[i + 1]);
      y[i + 1] = vtrn2q_u32(x[i], x[i + 1]);
    }
    KVICK_UNROLL for (int i = 0; i < 2; ++i) {
      const uint64x2_t a = vreinterpretq_u64_u32(y[i]), b = vreinterpretq_u64_u32(y[i + 2]);
      store(to + i * stride, vreinterpretq_f32_u64(vtrn1q_u64(a, b)));
      store(to + (i + 2) * stride, vreinterpretq_f32_u64(vtrn2q_u64(a, b)));
    }
  }
  // a, b: eight floats in memory order; even: those at even places.
  static void split_pairs(F a, F b, F& even, F& odd) {
    even = vuzp1q_f32(a, b);
    odd = vuzp2q_f32(a, b);
  }
  static void join_pairs(F even, F odd, F& a, F& b) {
    a = vzip1q_f32(even, odd);
    b = vzip2q_f32(even, odd);
  }
};

}  // namespace
}  // namespace kvick::kernels
