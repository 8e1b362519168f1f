#pragma once
// Internal to kernels/: quantised cache rows (DType::kQ8, kQ4, kQ3 and kQ2). A row of n elements is
// the codes of all n, then n/32 float16 scales.

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {

inline constexpr uint32_t kRowGroup = 32;  // elements that share one scale

// Whether codes of this type are indices of a table of levels.
constexpr bool is_level_code(DType type) { return type == DType::kQ3 || type == DType::kQ2; }
constexpr bool is_cache_code(DType type) {
  return type == DType::kQ8 || type == DType::kQ4 || is_level_code(type);
}
// Returns the bytes of n codes, which is where the scales of a row begin.
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
// Returns the scale of a group. `extreme` is its value of the largest magnitude, the positive one
// of two equal ones; NaN or an infinity gives a scale of NaN. The scale is rounded away from zero,
// so codes stay in range. Only 4-bit codes on the side opposite to the extreme are clamped (as in
// GGML's Q4_0).
GroupScale group_scale(DType type, float extreme);

// Packs 32 codes of 4 bits, one per byte, into the 16 bytes of their group.
void pack_nibbles(const uint8_t* codes, std::byte* out);

// -- levels --
// The levels with the least error for a Gaussian (Lloyd 1982, Max 1960), as integers, because rows
// are nearly Gaussian after a Hadamard transform. A code is the index of a magnitude, with the sign
// as its highest bit. 32 codes of kQ2 are two words of 16 bit pairs, the first code lowest. kQ3
// stores the lower two bits of its codes in the same way, and their highest bits in a third word.
struct LevelTable {
  int magnitudes;
  float magnitude[4];
  float deviation;  // standard deviation of the Gaussian
  // Returns the middle between magnitudes j - 1 and j.
  constexpr float middle(int j) const { return (magnitude[j - 1] + magnitude[j]) / 2; }
};
constexpr LevelTable level_table(DType type) {
  return type == DType::kQ3 ? LevelTable{4, {14, 43, 77, 123}, 57.2F}
                            : LevelTable{2, {3, 10}, 6.62F};
}
// How a group is fitted: its elements become integers t, -255 to 255, so that all sums are exact
// and do not depend on their order. The first scale gives the group the Gaussian's deviation. Then,
// this many times, each t gets its nearest level, and the scale becomes the least-squares fit to
// these.
inline constexpr int kLevelFits = 2;
inline constexpr float kMostLevel = 255;
inline constexpr float kRoundShift = 0x1.8p23F;  // adding and subtracting it rounds to integers
// Returns the factor from elements to t. most: the group's largest magnitude; 0 if that is nearly 0
// or not finite.
float level_inverse(float most);
float first_level_scale(DType type, float sum_of_squares);
// Returns the float16 to store for a scale of t.
uint16_t level_scale(float scale, float most);
void pack_levels(DType type, const uint8_t* codes, std::byte* out);

// The definitions: to_f32 and from_f32 of these types.
void cache_row_to_f32(DType type, const std::byte* in, size_t n, float* out);
void cache_row_from_f32(DType type, const float* in, size_t n, std::byte* out);

// Throws unless rows of n elements can be stored in groups with this type: kKivi4K, n a multiple of
// 32.
void check_group_type(DType type, size_t n);

}  // namespace kvick::kernels
