#pragma once
// Internal to kernels/: where the bits of a packed panel are.
//
// A panel is a sequence of blocks, each a header and the bit planes of its groups of 32 inputs,
// read from front to back as one stream. Vector loads are aligned to their size.
//
//   kHalves     A block is 2 groups. Header: scale f16 [2][16 rows], then min f16 [2][16] if any.
//   kTwoLevels  A block is 8 groups. Header: d f16 [16], m f16 [16], then per group:
//               scale_group 32: int8 scale [16], and int8 min [16] if any;
//               scale_group 16: int8 scale [2 halves][16], and if the format has mins (Q2_K) the
//               scale is the low and the min the high nibble.
//               scale = d * int8 scale, min = m * int8 min (m: the negative of the file's dmin).
//   kHalf256    A block is 8 groups. Header: d f16 [16], 32 unused bytes.
//   kE8M0       A block is 4 groups. Header: int8 exponent [4][16].
//   kE4M3       A block is 2 groups. Header: a byte [2][2 halves][16].
//
// A last block with fewer groups has a whole header and the planes of its groups.
//
// The codes of a group fill 8 registers of 64 bytes: byte 4 * row + b of register j is input
// 4 * j + b of that row. They are divided into planes:
//
//   4 bits  [4][64]: low nibbles of line j for register j, high nibbles for register j + 4
//   2 bits  [2][64]: bits 2i, 2i+1 of line l for register 4 * l + i
//   1 bit   [64]:    bit j for register j
//
// and stored in this order: 2 bits: plane2; 3: plane2, plane1; 4: plane4; 5: plane4, plane1;
// 6: plane4, plane2; 8: the registers. The later plane has the higher bits.

#include "kernels/formats/matrix.h"
#include "kernels/formats/pack_formats.h"

namespace kvick::kernels {

// Returns the first type that is stored in the same way: kernels are compiled for that one only.
constexpr DType kernel_type(DType type) {
  const PackFormat& format = kPackFormats[static_cast<size_t>(type)];
  for (int i = 0; format.quantised && i < static_cast<int>(type); ++i)
    if (kPackFormats[i] == format) return static_cast<DType>(i);
  return type;
}

inline constexpr size_t kLine = 64;       // bytes of one register of codes
inline constexpr size_t kHalfRow = 32;    // bytes of float16 [16 rows]
inline constexpr size_t kSubScales = 64;  // where a two-level header's bytes begin

// Returns u of a stored code.
constexpr int value_of(const PackFormat& f, int code) {
  return f.codebook == nullptr ? code : f.codebook->u[code];
}
// Whether a block begins with float16 scales for all of its groups.
constexpr bool has_super(const PackFormat& f) {
  return f.scales == ScaleKind::kTwoLevels || f.scales == ScaleKind::kHalf256;
}
// Returns the bytes per group of scales that are stored as bytes.
constexpr size_t sub_bytes(const PackFormat& f) {
  return kPanel * (f.scale_group == 16 || f.has_min ? 2 : 1);
}
constexpr uint32_t groups_per_block(const PackFormat& f) {
  return has_super(f) ? 8 : f.scales == ScaleKind::kE8M0 ? 4 : 2;
}
constexpr size_t header_bytes(const PackFormat& f) {
  return f.scales == ScaleKind::kTwoLevels ? kSubScales + 8 * sub_bytes(f)
                                           : kLine * (f.has_min ? 2 : 1);
}
// Returns the offset of a group's scale bytes in the header; `group` counts within the block.
constexpr size_t sub_offset(const PackFormat& f, uint32_t group) {
  return (f.scales == ScaleKind::kTwoLevels ? kSubScales : 0) + group * sub_bytes(f);
}
constexpr size_t plane_bytes(const PackFormat& f) { return kLine * f.bits; }
constexpr size_t panel_bytes(const PackFormat& f, uint32_t groups) {
  const size_t blocks = (groups + groups_per_block(f) - 1) / groups_per_block(f);
  return blocks * header_bytes(f) + groups * plane_bytes(f);
}
// Returns the offset of a float in its panel, in elements.
constexpr size_t float_place(DType type, uint32_t input, uint32_t row) {
  return type == DType::kBF16 ? (size_t{input} / 2 * kPanel + row) * 2 + input % 2
                              : size_t{input} * kPanel + row;
}
// Returns the offset of a group's block in its panel, in bytes.
constexpr size_t block_offset(const PackFormat& f, uint32_t group) {
  const uint32_t n = groups_per_block(f);
  return group / n * (header_bytes(f) + n * plane_bytes(f));
}

// The scale and minimum of half h of a group for one row. read_scale() defines the headers above.
struct RowScale {
  float scale, min;
};
RowScale read_scale(const PackFormat& f, const std::byte* block, uint32_t row, uint32_t group,
                    int h);

}  // namespace kvick::kernels
