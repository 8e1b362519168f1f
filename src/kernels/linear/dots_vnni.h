#pragma once
// Internal to kernels/: products of 8-bit integers with AVX-512 VNNI, for matmul_avx512_impl.h.
// Included inside a target region. dots_avx512.h has the same functions without VNNI.

namespace kvick::kernels {
namespace {

// Whether prompts use prompt_block_avx512.h.
constexpr bool kPanelsTogetherForPrompts = true;

// Returns the zero that must still be subtracted from a dot product of codes, times the sum of the
// activations.
constexpr int zero_left(const PackFormat& format) { return format.zero; }

// A register of codes, 4 inputs of 16 rows, as add_product() takes it.
using DotCodes = __m512i;
template <int kBits>
KVICK_INLINE DotCodes dot_codes(__m512i codes) {
  return codes;
}

// Unused here, where no sums have 16 bits.
using DotPairs = int;

// sum += the products of 4 inputs of 16 rows with the 4 bytes at q. With the intrinsic g++ 12 loads
// the broadcast separately, which takes one more register and micro-operation each.
template <int kBits, int kSteps>
KVICK_INLINE void add_product(int, const DotCodes& codes, const int8_t* q, DotPairs&,
                              __m512i& sum) {
#if defined(__clang__)
  int32_t four;
  __builtin_memcpy(&four, q, 4);
  sum = _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(four));
#else
  using Four __attribute__((may_alias, aligned(1))) = int32_t;
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum)
      : "v"(codes), "m"(*reinterpret_cast<const Four*>(q)));
#endif
}

// Does the same with the 4 bytes in every lane of a register.
template <int kBits, int kSteps>
KVICK_INLINE void add_product(int, const DotCodes& codes, __m512i four, DotPairs&, __m512i& sum) {
  sum = _mm512_dpbusd_epi32(sum, codes, four);
}

}  // namespace
}  // namespace kvick::kernels
