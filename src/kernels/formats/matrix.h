#pragma once
// Weights repacked for the dot products of the processor, and activations quantised to meet them.
//
// A matrix is cut into panels of 16 output rows; a lane of a vector is a row, so no dot product
// ever needs a horizontal sum, and one code path serves one token (decode), a few (batches,
// speculation) and many (prefill). Within a panel the inputs go in groups of 32. All formats of
// GGUF become one of:
//
//   weight (row, i) = (u - zero) * scale[row][i/scale_group] + min[row][i/scale_group]
//
// with u an unsigned integer of 2 to 8 bits and `zero` one constant of the format. What is kept, in
// bit planes (see pack.h), is u itself or a code of 2 to 4 bits that a table of the format turns
// into u (IQ4_NL, MXFP4: codebooks.h). Scales are kept as in the file, so that nothing is rounded:
// float16 per group; in the K formats a byte per group times one float16 per 256 inputs (float16
// products would be 11 % larger for Q4_K, 52 % for Q2_K, and decode is bound by exactly these
// bytes). A matrix is at most 6 % larger than in the file, except that IQ1 to IQ3 and TQ1_0, which
// files compress further, take 1.26 to 2.16 times as much (docs/adr/0037). F32 and F16 stay what
// they are, as [input][16 rows]; so does BF16, as [input / 2][16 rows][2 inputs], which products of
// pairs of bfloat16 take as it is.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/memory.h"
#include "kernels/formats/dtype.h"
#include "kernels/formats/pack_format.h"

namespace kvick::kernels {

inline constexpr uint32_t kPanel = 16;  // output rows of one panel
inline constexpr uint32_t kGroup = 32;  // inputs that share one activation scale

// rows x inputs weights of one linear layer, packed. Rows are padded with zero weights to a whole
// panel; inputs must be a multiple of 32.
struct Matrix {
  DType dtype = DType::kF32;
  uint32_t rows = 0;  // outputs
  uint32_t inputs = 0;
  size_t panel_bytes = 0;
  std::span<std::byte> data;  // [panels] of panel_bytes
  base::Buffer own;           // that memory, unless it is an arena's

  uint32_t panels() const { return (rows + kPanel - 1) / kPanel; }
  const std::byte* panel(uint32_t i) const { return data.data() + i * panel_bytes; }
};

// An empty matrix with room for rows x inputs of a type, in the arena if there is one: the matrices
// of a small model are each smaller than a huge page, and reading them from 4 KiB pages is slower.
// KVICK_CHECKs that inputs is a multiple of 32 and of the block: loaders refuse other shapes with a
// sentence of their own.
Matrix make_matrix(DType type, uint32_t rows, uint32_t inputs, base::Arena* arena = nullptr);

// Packs panels [begin, end) of the matrix from `source`: [source_rows][inputs] in the type's file
// layout, row-major. Row 0 of the source becomes row first_row (a multiple of kPanel) of the
// matrix; rows of these panels past the source's end become zero weights. Different panels may be
// packed from different threads. Several source tensors (q, k, v) may be stacked into one matrix,
// one call each.
void pack_panels(Matrix& matrix, const std::byte* source, uint32_t source_rows, uint32_t first_row,
                 uint32_t begin, uint32_t end);

// One row back as float32 [inputs]: embedding look-ups from a packed (tied) output matrix. The same
// bits as to_f32.
void unpack_row(const Matrix& matrix, uint32_t row, float* out);

// Panels that a kernel takes together where it can: pieces of a matrix are best multiples of it.
inline constexpr uint32_t kPanelsTogether = 3;

// Tokens that a matrix is multiplied with together: the activations of a tile are interleaved.
inline constexpr uint32_t kTokenTile = 16;

// How one token's pass over the weights asks for them before it needs them: twice, first into L2
// and then into L1; once, into L1; or not at all. Which is fastest: model/blocks/read_ahead.h.
enum class ReadAhead : uint8_t { kTwice, kOnce, kNone };
inline constexpr int kReadAheads = 3;

// Token rows of one layer's input, quantised once and shared by all matrices that read it. The
// caller gives the memory; Table::quantise fills it. Per group of 32: scale = max|x|/127, q =
// round(x/scale) to nearest even, sums of q over each 16 (exact integers). A group whose largest
// value is below 1e-30 counts as zero. A group that holds NaN or an infinity gets scale NaN and q =
// 0, so that every output of the token becomes NaN.
//
// q, scale and sums are in tiles of 16 tokens (the last one holds the rest, n < 16), so that the
// kernels walk straight through them, and inputs that are a power of two do not fall into one set
// of the L1 cache. Token t is number i = t % 16 of tile t / 16, which follows the tiles before it.
// Different tokens may be quantised from different threads. The float formats read x alone: the
// other three may be empty for them.
struct Activations {
  uint32_t tokens = 0, inputs = 0;
  const float* x = nullptr;  // [tokens][inputs] as given; what the float formats read
  std::span<int8_t> q;       // tokens * inputs: per tile [inputs/32][n][32]
  std::span<float> scale;    // tokens * inputs/32: per tile [inputs/32][n]
  std::span<int32_t> sums;   // tokens * inputs/16: per tile [inputs/32][2][n]
  // x as bfloat16 for Table::matmul_rounded, filled by Table::round_inputs; 64-byte aligned.
  std::span<uint16_t> rounded = {};  // tokens * inputs: per tile [inputs/32][n][32]
  ReadAhead read_ahead = ReadAhead::kTwice;

  uint32_t groups() const { return inputs / kGroup; }
};

// The arithmetic of prompts (Table::matmul_prompt) takes inputs in chunks of at most this many
// groups, as equal as possible: their weights, of four panels, stay in L1.
inline constexpr uint32_t kPromptChunk = 9;
inline constexpr uint32_t kPromptPanels = 2;  // that are taken together, as kPanelsTogether
constexpr uint32_t prompt_chunks(uint32_t inputs) {
  return (inputs / kGroup + kPromptChunk - 1) / kPromptChunk;
}
// Groups per chunk; the last chunk may have fewer.
constexpr uint32_t prompt_chunk(uint32_t inputs) {
  const uint32_t chunks = prompt_chunks(inputs);
  return (inputs / kGroup + chunks - 1) / chunks;
}
constexpr uint32_t prompt_chunk_groups(uint32_t inputs, uint32_t chunk) {
  const uint32_t first = chunk * prompt_chunk(inputs), groups = inputs / kGroup;
  return groups - first < prompt_chunk(inputs) ? groups - first : prompt_chunk(inputs);
}

// Token rows of one layer's input as the arithmetic of prompts reads them, shared by all matrices
// that do. The caller gives the memory; Table::round_tile fills it, different tiles from different
// threads.
struct PromptActivations {
  uint32_t tokens = 0, inputs = 0;
  const float* x = nullptr;  // [tokens][inputs] as given; what F32 reads
  std::span<uint16_t>
      values;  // bfloat16, 64-byte aligned: per chunk [tiles][groups][16 tokens][32]

  uint32_t tiles() const { return (tokens + kTokenTile - 1) / kTokenTile; }
  static size_t size(uint32_t tokens, uint32_t inputs) {
    return (size_t{tokens} + kTokenTile - 1) / kTokenTile * kTokenTile * inputs;
  }
  // Group g of a tile of 16 tokens: [16][32].
  uint16_t* at(uint32_t tile, uint32_t g) const {
    const uint32_t chunk = g / prompt_chunk(inputs), first = chunk * prompt_chunk(inputs);
    const size_t groups =
        size_t{first} * tiles() + size_t{tile} * prompt_chunk_groups(inputs, chunk) + (g - first);
    return values.data() + groups * kTokenTile * kGroup;
  }
};
// Whether weights of this type have it (Table::matmul_prompt): all but F32.
bool has_prompt_matmul(DType type);
// Whether weights of this type have Table::matmul_rounded: BF16.
bool has_rounded_matmul(DType type);

// [begin, end).
struct Range {
  uint32_t begin, end;
};

}  // namespace kvick::kernels
