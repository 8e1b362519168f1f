#pragma once
// Internal to kernels/: quantised cache rows (DType::kQ8, kQ4, kQ3 and kQ2). A row of n elements is
// the codes of all n, then n/32 float16 scales.

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {

inline constexpr uint32_t kRowGroup = 32;  // elements that share one scale

// Codes that stand for levels of a table.
constexpr bool is_level_code(DType type) { return type == DType::kQ3 || type == DType::kQ2; }
constexpr bool is_cache_code(DType type) {
  return type == DType::kQ8 || type == DType::kQ4 || is_level_code(type);
}
// Bytes of n codes: where the scales of a row begin.
constexpr size_t code_bytes(DType type, size_t n) {
  return type == DType::kQ8   ? n
         : type == DType::kQ3 ? n / 32 * 12
         : type == DType::kQ2 ? n / 4
                              : n / 2;
}

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

// -- levels --
// The levels with the least error for a Gaussian (Lloyd 1982, Max 1960), as integers: rows after a
// Hadamard transform are nearly Gaussian. A code is the index of a magnitude, followed by the sign
// bit. 32 codes of kQ2 are two words of 16 pairs of bits, the first code lowest; kQ3 stores the
// lower two bits of each code so, and a third word has the highest bit of all 32.
struct LevelTable {
  int magnitudes;
  float magnitude[4];
  float deviation;  // the Gaussian's
  // Between magnitudes j - 1 and j.
  constexpr float middle(int j) const { return (magnitude[j - 1] + magnitude[j]) / 2; }
};
constexpr LevelTable level_table(DType type) {
  return type == DType::kQ3 ? LevelTable{4, {14, 43, 77, 123}, 57.2F}
                            : LevelTable{2, {3, 10}, 6.62F};
}
// How a group is fitted: its elements as integers t, -255 to 255, so that all sums are exact and do
// not depend on their order; then a scale that gives the group the Gaussian's deviation, and so
// often anew the scale of the least squares of what was nearest.
inline constexpr int kLevelFits = 2;
inline constexpr float kMostLevel = 255;
inline constexpr float kRoundShift = 0x1.8p23F;  // added and taken away, it rounds to integers
// t / x of a group of elements up to `most` in size; 0 if they are nearly 0, or not finite.
float level_inverse(float most);
float first_level_scale(DType type, float sum_of_squares);
// float16 of a scale of t.
uint16_t level_scale(float scale, float most);
void pack_levels(DType type, const uint8_t* codes, std::byte* out);

// The definitions: to_f32 and from_f32 of these types.
void cache_row_to_f32(DType type, const std::byte* in, size_t n, float* out);
void cache_row_from_f32(DType type, const float* in, size_t n, std::byte* out);

// Throws unless n elements a row can be stored as rows of this type that go together: kKivi4K, with
// a multiple of 32.
void check_group_type(DType type, size_t n);

}  // namespace kvick::kernels
