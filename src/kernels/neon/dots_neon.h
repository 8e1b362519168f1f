#pragma once
// Internal to kernels/: products of 8-bit integers with NEON's DotProd, for matmul_neon_impl.h.
// Included inside a target region. dots_i8mm.h has the same functions with I8MM. Both are exact.

namespace kvick::kernels {
namespace {

// Returns the zero that must still be subtracted from a dot product of codes, times the sum of the
// activations.
constexpr int zero_left(const PackFormat& format) {
  return format.value_bits == 8 ? 0 : format.zero;
}

// Converts unsigned codes for dot_products(). Both factors of SDOT are signed, and codes of up to 7
// bits already are valid signed numbers.
template <int kBits>
KVICK_INLINE uint8x16_t dot_codes(uint8x16_t codes) {
  return kBits == 8 ? veorq_u8(codes, vdupq_n_u8(0x80)) : codes;
}

// Returns how many of `tokens` tokens dot_products() takes at once.
constexpr int tokens_together(int) { return 1; }

// Rearranges the registers of a group's codes of 4 rows for dot_products().
template <int kTogether>
KVICK_INLINE void arrange(uint8x16_t*) {}

// Returns sum + the products of 4 inputs of 4 rows with activations [4 kLane, 4 kLane + 4) of q.
template <int kLane>
KVICK_INLINE int32x4_t dot_lane(int32x4_t sum, uint8x16_t codes, int8x16_t q) {
#if defined(__clang__)  // its intrinsics, up to 15, need the target for the whole file
  asm("sdot %0.4s, %1.16b, %2.4b[%c3]" : "+w"(sum) : "w"(codes), "w"(q), "i"(kLane));
  return sum;
#else
  return vdotq_laneq_s32(sum, vreinterpretq_s8_u8(codes), q, kLane);
#endif
}

// sums[t] = start[t] (null: 0) + the products of kCount registers, a multiple of 4, with the
// activations at q. Those of the next token are kGroup bytes further on.
template <int kTogether, int kCount>
KVICK_INLINE void dot_products(const uint8x16_t* w, const int8_t* q, const int32_t* start,
                               int32x4_t* sums) {
  static_assert(kTogether == 1);
  sums[0] = start != nullptr ? vdupq_n_s32(start[0]) : vdupq_n_s32(0);
  KVICK_UNROLL for (int j = 0; j < kCount; j += 4) {
    const int8x16_t x = vld1q_s8(q + 4 * j);
    sums[0] = dot_lane<0>(sums[0], w[j], x);
    sums[0] = dot_lane<1>(sums[0], w[j + 1], x);
    sums[0] = dot_lane<2>(sums[0], w[j + 2], x);
    sums[0] = dot_lane<3>(sums[0], w[j + 3], x);
  }
}

}  // namespace
}  // namespace kvick::kernels
