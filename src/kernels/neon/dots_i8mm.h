#pragma once
// Internal to kernels/: products of 8-bit integers with I8MM, for matmul_neon_impl.h. Included
// inside a target region. dots_neon.h has the same functions without I8MM.

namespace kvick::kernels {
namespace {

constexpr int zero_left(const PackFormat& format) { return format.zero; }

// USDOT and USMMLA take unsigned codes of all 8 bits.
template <int kBits>
KVICK_INLINE uint8x16_t dot_codes(uint8x16_t codes) {
  return codes;
}

// USMMLA multiplies 2 rows with 2 tokens, 8 inputs of each, in the time that USDOT takes for half
// as many products. Registers 2k and 2k + 1 hold 4 inputs of 4 rows each; USMMLA needs 8 inputs of
// rows 0 and 1 in one, and of rows 2 and 3 in the other.
constexpr int tokens_together(int tokens) { return tokens == 1 ? 1 : 2; }
template <int kTogether>
KVICK_INLINE void arrange(uint8x16_t* w) {
  if constexpr (kTogether == 2) {
    KVICK_UNROLL for (int j = 0; j < 8; j += 2) {
      const uint32x4_t a = vreinterpretq_u32_u8(w[j]), b = vreinterpretq_u32_u8(w[j + 1]);
      w[j] = vreinterpretq_u8_u32(vzip1q_u32(a, b));
      w[j + 1] = vreinterpretq_u8_u32(vzip2q_u32(a, b));
    }
  }
}

// dots_neon.h says why clang gets assembly.
template <int kLane>
KVICK_INLINE int32x4_t dot_lane(int32x4_t sum, uint8x16_t codes, int8x16_t q) {
#if defined(__clang__)
  asm("usdot %0.4s, %1.16b, %2.4b[%c3]" : "+w"(sum) : "w"(codes), "w"(q), "i"(kLane));
  return sum;
#else
  return vusdotq_laneq_s32(sum, codes, q, kLane);
#endif
}
KVICK_INLINE int32x4_t multiply_pairs(int32x4_t sum, uint8x16_t codes, int8x16_t q) {
#if defined(__clang__)
  asm("usmmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(codes), "w"(q));
  return sum;
#else
  return vusmmlaq_s32(sum, codes, q);
#endif
}

template <int kTogether, int kCount>
KVICK_INLINE void dot_products(const uint8x16_t* w, const int8_t* q, const int32_t* start,
                               int32x4_t* sums) {
  if constexpr (kTogether == 1) {
    sums[0] = start != nullptr ? vdupq_n_s32(start[0]) : vdupq_n_s32(0);
    KVICK_UNROLL for (int j = 0; j < kCount; j += 4) {
      const int8x16_t x = vld1q_s8(q + 4 * j);
      sums[0] = dot_lane<0>(sums[0], w[j], x);
      sums[0] = dot_lane<1>(sums[0], w[j + 1], x);
      sums[0] = dot_lane<2>(sums[0], w[j + 2], x);
      sums[0] = dot_lane<3>(sums[0], w[j + 3], x);
    }
  } else {
    // low is for rows 0 and 1, high for rows 2 and 3: both tokens of the first row, then both of
    // the second. Sums start from the same values in all rows.
    int64_t both = 0;
    if (start != nullptr) __builtin_memcpy(&both, start, sizeof both);
    int32x4_t low = vreinterpretq_s32_s64(vdupq_n_s64(both)), high = low;
    KVICK_UNROLL for (int j = 0; j < kCount; j += 4) {
      const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(q + 4 * j));
      const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(q + 4 * j + kGroup));
      const int8x16_t first = vreinterpretq_s8_s64(vtrn1q_s64(a, b));
      const int8x16_t second = vreinterpretq_s8_s64(vtrn2q_s64(a, b));
      low = multiply_pairs(low, w[j], first);
      high = multiply_pairs(high, w[j + 1], first);
      low = multiply_pairs(low, w[j + 2], second);
      high = multiply_pairs(high, w[j + 3], second);
    }
    sums[0] = vuzp1q_s32(low, high);
    sums[1] = vuzp2q_s32(low, high);
  }
}

}  // namespace
}  // namespace kvick::kernels
