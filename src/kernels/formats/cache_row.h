#pragma once
// Internal to kernels/: quantised cache rows (DType::kQ8 and kQ4). A row of n elements is the codes
// of all n, then n/32 float16 scales.

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {

inline constexpr uint32_t kRowGroup = 32;  // elements that share one scale

constexpr bool is_cache_code(DType type) { return type == DType::kQ8 || type == DType::kQ4; }
// Bytes of n codes: where the scales of a row begin.
constexpr size_t code_bytes(DType type, size_t n) { return type == DType::kQ8 ? n : n / 2; }

// How the numbers of one group become codes: round(x * inverse) to nearest even, plus `middle`,
// kept within [low, high].
struct CodeRange {
  int middle, low, high;
};
constexpr CodeRange code_range(DType type) {
  return type == DType::kQ4 ? CodeRange{8, 0, 15} : CodeRange{0, -127, 127};
}
struct GroupScale {
  uint16_t half;  // float16, as stored
  float inverse;  // 1 / that scale, 0 for a scale of 0 or NaN
};
// `extreme` is the group's value of the largest magnitude, the positive one of two equal ones; NaN
// or an infinity gives a scale of NaN. The scale is rounded away from zero, so that no code passes
// its range but 4-bit ones on the side opposite to the extreme, which are cut (as in GGML's Q4_0).
GroupScale group_scale(DType type, float extreme);

// 32 codes of 4 bits, one a byte, to the 16 bytes of their group.
void pack_nibbles(const uint8_t* codes, std::byte* out);

// The definitions: to_f32 and from_f32 of these types.
void cache_row_to_f32(DType type, const std::byte* in, size_t n, float* out);
void cache_row_from_f32(DType type, const float* in, size_t n, std::byte* out);

// Throws unless n elements a row can be stored as rows of this type that go together: kKivi4K, with
// a multiple of 32.
void check_group_type(DType type, size_t n);

}  // namespace kvick::kernels
