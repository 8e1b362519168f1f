#pragma once
// Weights repacked for the dot products of the processor, and activations quantised to meet them.
//
// A matrix is cut into panels of 16 output rows; a lane of a vector is a row, so no dot product ever needs a horizontal
// sum, and one code path serves one token (decode), a few (batches, speculation) and many (prefill). Within a panel the
// inputs go in groups of 32. All formats of GGUF become one of:
//
//   unpacked value of weight (row, i) = scale[row][i/group] * (u - zero) + min[row][i/group]
//
// with u an unsigned integer of 2 to 8 bits, kept in bit planes (see pack.cc), `zero` one constant of the format, and
// scale (and min, where the format has one) as float16. Products of two scales of the K formats are rounded to float16
// once, here: 2^-11 of a weight, against their quantisation error of 2^-3 to 2^-7.
// F32, F16 and BF16 stay what they are, as [input][16 rows].

#include <cstddef>
#include <cstdint>

#include "base/memory.h"
#include "kernels/dtype.h"

namespace kvick::kernels {

inline constexpr uint32_t kPanel = 16;  // output rows of one panel
inline constexpr uint32_t kGroup = 32;  // inputs that share one activation scale

// How one DType is kept once packed.
struct PackFormat {
  bool quantised;     // false: F32/F16/BF16, the fields below are unused
  uint8_t bits;       // bits of u: 2, 3, 4, 5, 6 or 8
  uint8_t scale_group;  // inputs that share one scale: 16 or 32
  bool has_min;
  int16_t zero;
};
const PackFormat& pack_format(DType type);

// rows x inputs weights of one linear layer, packed. Rows are padded with zero weights to a whole panel; inputs must be
// a multiple of 32.
struct Matrix {
  DType dtype = DType::kF32;
  uint32_t rows = 0;    // outputs
  uint32_t inputs = 0;
  size_t panel_bytes = 0;
  base::Buffer data;    // [panels] of panel_bytes

  uint32_t panels() const { return (rows + kPanel - 1) / kPanel; }
  const std::byte* panel(uint32_t i) const { return data.data() + i * panel_bytes; }
};

// An empty matrix with room for rows x inputs of a type. KVICK_CHECKs that inputs is a multiple of 32 and of the block.
Matrix make_matrix(DType type, uint32_t rows, uint32_t inputs);

// Packs panels [begin, end) from `source`: [rows][inputs] in the type's file layout, row-major. Different panels may be
// packed from different threads. Several source tensors (q, k, v) may be stacked into one matrix by calling this with
// the row at which each starts (a multiple of kPanel).
void pack_panels(Matrix& matrix, const std::byte* source, uint32_t source_rows, uint32_t first_row,
                 uint32_t begin, uint32_t end);

// One row back as float32 [inputs]: embedding look-ups from a packed (tied) output matrix. Exact for Q8_0, Q4_*, Q5_*
// and the float types.
void unpack_row(const Matrix& matrix, uint32_t row, float* out);

// Token rows of one layer's input, quantised once and shared by all matrices that read it.
// Per group of 32: q = round(x/scale), scale = max|x|/127; sums are of q over each 16 (exact integers).
struct Activations {
  uint32_t tokens = 0, inputs = 0;
  const float* x = nullptr;        // [tokens][inputs] as given; what the float formats read
  std::span<int8_t> q;             // [tokens][inputs]
  std::span<float> scale;          // [tokens][inputs/32]
  std::span<int32_t> sums;         // [tokens][inputs/16]
};

}  // namespace kvick::kernels
