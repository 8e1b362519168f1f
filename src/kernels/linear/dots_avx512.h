#pragma once
// Internal to kernels/: products of 8-bit integers with AVX-512 BW, for matmul_avx512_impl.h.
// Included inside a target region. dots_vnni.h has the same functions with VNNI.
//
// VPMADDUBSW adds two products in 16 bits, saturating; VPMADDWD widens pairs of these sums. With
// codes of fewer than 8 bits, several sums fit into 16 bits before they must be widened. Codes of 8
// bits are made signed, |code| <= 128, and their sign moves to the activation, |q| <= 127, so two
// products are at most 32512. Every sum is exact, so the result is that of VNNI.

namespace kvick::kernels {
namespace {

// Whether prompts use prompt_block_avx512.h. Here the sums of three panels, of 16 and of 32 bits,
// do not fit into the registers: on Zen 5, prompts of Qwen3-0.6B's shape ran at 0.86 to 0.97 of the
// rate.
constexpr bool kPanelsTogetherForPrompts = false;

// Returns the zero that must still be subtracted from a dot product of codes, times the sum of the
// activations.
constexpr int zero_left(const PackFormat& format) {
  return format.value_bits == 8 ? 0 : format.zero;
}

// A register of codes, 4 inputs of 16 rows, as add_product() takes it.
struct DotCodes {
  __m512i magnitude;
  __mmask64 negative;  // only for codes of 8 bits
};
template <int kBits>
KVICK_INLINE DotCodes dot_codes(__m512i codes) {
  if constexpr (kBits < 8) return {codes, 0};
  const __m512i code = _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
  return {_mm512_abs_epi8(code), _mm512_movepi8_mask(code)};
}

// Sums of products in 16 bits that are not yet added to a sum of 32 bits.
using DotPairs = __m512i;

// Adds to `sum` the products of 4 inputs of 16 rows with the 4 bytes in every lane of `four`. Steps
// must come in order from 0 on, and `sum` is complete after step kSteps - 1.
template <int kBits, int kSteps>
KVICK_INLINE void add_product(int step, const DotCodes& codes, __m512i four, DotPairs& pairs,
                              __m512i& sum) {
  constexpr int kFit = sums_in_16_bits(kBits);
  if constexpr (kBits == 8)
    four = _mm512_mask_sub_epi8(four, codes.negative, _mm512_setzero_si512(), four);
  const __m512i product = _mm512_maddubs_epi16(codes.magnitude, four);
  pairs = step % kFit == 0 ? product : _mm512_add_epi16(pairs, product);
  if (step % kFit == kFit - 1 || step == kSteps - 1)
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

// Does the same with the 4 bytes at q.
template <int kBits, int kSteps>
KVICK_INLINE void add_product(int step, const DotCodes& codes, const int8_t* q, DotPairs& pairs,
                              __m512i& sum) {
  int32_t four;
  __builtin_memcpy(&four, q, 4);
  add_product<kBits, kSteps>(step, codes, _mm512_set1_epi32(four), pairs, sum);
}

}  // namespace
}  // namespace kvick::kernels
