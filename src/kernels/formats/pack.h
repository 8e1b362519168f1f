#pragma once
// Internal to kernels/: where the bits of a packed panel are.
//
// A panel is a sequence of blocks, each a header and the bit planes of its groups of 32 inputs,
// read from front to back as one stream. What a vector loads starts at a multiple of its size.
//
//   one level   A block is 2 groups. Header: scale f16 [2][16 rows], then min f16 [2][16] if any.
//               The last block of an odd number of groups has a whole header, one group's planes.
//   two levels  A block is 8 groups. Header: d f16 [16], m f16 [16], then 32 bytes per group:
//               scale_group 32: int8 scale [16], int8 min [16];
//               scale_group 16: int8 scale [2 halves][16], and if the format has mins (Q2_K) the
//               scale is the low and the min the high nibble.
//               scale = d * int8 scale, min = m * int8 min (m: the negative of the file's dmin).
//
// The codes u of a group fill 8 registers of 64 bytes: byte 4 * row + b of register j is input
// 4 * j + b of that row. They are cut into planes:
//
//   4 bits  [4][64]: low nibbles of line j for register j, high nibbles for register j + 4
//   2 bits  [2][64]: bits 2i, 2i+1 of line l for register 4 * l + i
//   1 bit   [64]:    bit j for register j
//
// and stored in this order: 2 bits: plane2; 3: plane2, plane1; 4: plane4; 5: plane4, plane1;
// 6: plane4, plane2; 8: the registers. The later plane has the higher bits.

#include "kernels/formats/matrix.h"

namespace kvick::kernels {

// {quantised, bits, scale_group, has_min, two_level, zero}, indexed by DType.
inline constexpr PackFormat kPackFormats[kWeightTypes] = {
    {false, 0, 0, false, false, 0},    // F32
    {false, 0, 0, false, false, 0},    // F16
    {false, 0, 0, false, false, 0},    // BF16
    {true, 8, 32, false, false, 128},  // Q8_0
    {true, 4, 32, false, false, 8},    // Q4_0
    {true, 4, 32, true, false, 0},     // Q4_1
    {true, 5, 32, false, false, 16},   // Q5_0
    {true, 5, 32, true, false, 0},     // Q5_1
    {true, 2, 16, true, true, 0},      // Q2_K
    {true, 3, 16, false, true, 4},     // Q3_K
    {true, 4, 32, true, true, 0},      // Q4_K
    {true, 5, 32, true, true, 0},      // Q5_K
    {true, 6, 16, false, true, 32},    // Q6_K
};

inline constexpr size_t kLine = 64;       // bytes of one register of codes
inline constexpr size_t kHalfRow = 32;    // bytes of float16 [16 rows]
inline constexpr size_t kSubScales = 64;  // where a two-level header's bytes begin
inline constexpr size_t kSubGroup = 32;   // its bytes per group

constexpr uint32_t groups_per_block(const PackFormat& f) { return f.two_level ? 8 : 2; }
constexpr size_t header_bytes(const PackFormat& f) {
  return f.two_level ? kSubScales + 8 * kSubGroup : kLine * (f.has_min ? 2 : 1);
}
constexpr size_t plane_bytes(const PackFormat& f) { return kLine * f.bits; }
constexpr size_t panel_bytes(const PackFormat& f, uint32_t groups) {
  const size_t blocks = (groups + groups_per_block(f) - 1) / groups_per_block(f);
  return blocks * header_bytes(f) + groups * plane_bytes(f);
}
// Where a float of a panel is, in elements from the panel's start.
constexpr size_t float_place(DType type, uint32_t input, uint32_t row) {
  return type == DType::kBF16 ? (size_t{input} / 2 * kPanel + row) * 2 + input % 2
                              : size_t{input} * kPanel + row;
}
// Where the block of a group begins in its panel.
constexpr size_t block_offset(const PackFormat& f, uint32_t group) {
  const uint32_t n = groups_per_block(f);
  return group / n * (header_bytes(f) + n * plane_bytes(f));
}

}  // namespace kvick::kernels
