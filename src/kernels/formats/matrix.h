#pragma once
// Weights repacked for the processor's dot products, and activations quantised for them.
//
// A matrix is divided into panels of 16 output rows; a lane of a vector is a row, so no dot product
// ever needs a horizontal sum, and one code path serves one token (decode), a few (batches,
// speculation) and many (prefill). Within a panel, inputs come in groups of 32. All formats of GGUF
// become:
//
//   weight (row, i) = (u - zero) * scale[row][i/scale_group] + min[row][i/scale_group]
//
// where u is an unsigned integer of 2 to 8 bits and `zero` a constant of the format. Bit planes
// (see pack.h) store u itself, or a code of 2 to 4 bits that a table of the format maps to u
// (IQ4_NL, MXFP4: codebooks.h). Scales are stored as in the file, so that nothing is rounded:
// float16 per group; in the K formats a byte per group times one float16 per 256 inputs (float16
// products would be 11 % larger for Q4_K, 52 % for Q2_K, and decode is bound by exactly these
// bytes). A matrix is at most 6 % larger than in the file, except that IQ1 to IQ3 and TQ1_0, which
// files compress further, take 1.26 to 2.16 times as much (docs/adr/0037). F32 and F16 keep their
// values, as [input][16 rows]; so does BF16, as [input / 2][16 rows][2 inputs], the order that
// products of bfloat16 pairs take.

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
  base::Buffer own;           // owns `data`, unless an arena or a file does

  uint32_t panels() const { return (rows + kPanel - 1) / kPanel; }
  const std::byte* panel(uint32_t i) const { return data.data() + i * panel_bytes; }
};

// Returns a matrix with room for rows x inputs of a type, in the arena if there is one: each matrix
// of a small model is smaller than a huge page, and reading from 4 KiB pages is slower.
// KVICK_CHECKs that inputs is a multiple of 32 and of the block: loaders refuse other shapes with
// their own errors.
Matrix make_matrix(DType type, uint32_t rows, uint32_t inputs, base::Arena* arena = nullptr);

// Packs panels [begin, end) of the matrix from `source`: [source_rows][inputs] in the type's file
// layout, row-major. Row 0 of the source becomes row first_row (a multiple of kPanel) of the
// matrix; rows of these panels past the source's end become zero weights. Different panels may be
// packed from different threads. Several source tensors (q, k, v) may be stacked into one matrix,
// one call each.
void pack_panels(Matrix& matrix, const std::byte* source, uint32_t source_rows, uint32_t first_row,
                 uint32_t begin, uint32_t end);

// Unpacks one row to float32 [inputs], with the bits of to_f32: for embedding look-ups in a packed
// (tied) output matrix.
void unpack_row(const Matrix& matrix, uint32_t row, float* out);

// Panels that a kernel computes together where it can. Split a matrix at multiples of it.
inline constexpr uint32_t kPanelsTogether = 3;

// Tokens of a tile, whose activations are interleaved and multiplied with a matrix together.
inline constexpr uint32_t kTokenTile = 16;

// How a one-token pass over the weights prefetches them: twice, first into L2 and then into L1;
// once, into L1; or not at all. model/blocks/read_ahead.h measures which is fastest.
enum class ReadAhead : uint8_t { kTwice, kOnce, kNone };
inline constexpr int kReadAheads = 3;

// Token rows of one layer's input, quantised once and shared by all matrices that read it. The
// caller owns the memory; Table::quantise fills it. Per group of 32: scale = max|x|/127, q =
// round(x/scale) to nearest even, sums of q over each 16 (exact integers). A group whose largest
// value is below 1e-30 counts as zero. A group that holds NaN or an infinity gets scale NaN and q =
// 0, so that every output of the token becomes NaN.
//
// q, scale and sums are in tiles of n = 16 tokens (the last may have fewer), so that kernels read
// them sequentially, and rows of a power-of-two size do not fall into one set of the L1 cache.
// Token t is number t % 16 of tile t / 16; tiles follow each other. Different tokens may be
// quantised from different threads. The float formats read only x: the other three may be empty for
// them.
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

// Table::matmul_prompt takes inputs in chunks of at most this many groups, as equal as possible, so
// that the weights of a chunk for four panels stay in L1.
inline constexpr uint32_t kPromptChunk = 9;
inline constexpr uint32_t kPromptPanels = 2;  // panels computed together, as kPanelsTogether
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

// Token rows of one layer's input as Table::matmul_prompt reads them, shared by all its matrices.
// The caller owns the memory; Table::round_tile fills it, different tiles from different threads.
struct PromptActivations {
  uint32_t tokens = 0, inputs = 0;
  const float* x = nullptr;  // [tokens][inputs] as given, which round_tile reads
  // bfloat16, 64-byte aligned: per chunk [tiles][groups][16 tokens][32].
  std::span<uint16_t> values;

  uint32_t tiles() const { return (tokens + kTokenTile - 1) / kTokenTile; }
  static size_t size(uint32_t tokens, uint32_t inputs) {
    return (size_t{tokens} + kTokenTile - 1) / kTokenTile * kTokenTile * inputs;
  }
  // Returns group g of a tile of 16 tokens: [16][32].
  uint16_t* at(uint32_t tile, uint32_t g) const {
    const uint32_t chunk = g / prompt_chunk(inputs), first = chunk * prompt_chunk(inputs);
    const size_t groups =
        size_t{first} * tiles() + size_t{tile} * prompt_chunk_groups(inputs, chunk) + (g - first);
    return values.data() + groups * kTokenTile * kGroup;
  }
};
// Whether Table::matmul_prompt takes weights of this type: all but F32.
bool has_prompt_matmul(DType type);
// Whether Table::matmul_rounded takes weights of this type: BF16.
bool has_rounded_matmul(DType type);

// [begin, end).
struct Range {
  uint32_t begin, end;
};

}  // namespace kvick::kernels
