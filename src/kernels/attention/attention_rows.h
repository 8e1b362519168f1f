#pragma once
// Internal to kernels/: the rows of one chunk as pointers, in the order in which every query sees
// them. The code that reads them does not know segments and runs, so these cannot change the bits
// of a result.

#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention.h"

namespace kvick::kernels {

inline constexpr uint32_t kMaxHeadDim = 640;  // of keys and of values
inline constexpr uint32_t kMaxGroup = 128;    // query heads of one KV head
inline constexpr uint32_t kMaxLanes = 16;     // floats of the widest vector
// Queries of a tile, which share one conversion of the rows.
inline constexpr uint32_t kTileQueries = kMaxGroup;

// A strip is cache lines at an even distance.
struct Strip {
  const std::byte* at;
  uint32_t step, lines;  // step: bytes from one line to the next
};
struct StripList {
  static constexpr uint32_t kMost = 256;  // a chunk whose rows are all apart; more are dropped
  Strip strips[kMost];
  uint32_t count = 0, lines = 0;

  // Appends the cache lines of `rows` rows of `bytes` bytes, `stride` bytes apart. Rows with gaps
  // between them are treated as if each began at a cache line.
  void append(const std::byte* first, uint32_t bytes, uint32_t stride, uint32_t rows);
  // Does the same for many runs. rows: the address of row 0.
  void append_runs(const std::byte* rows, uint32_t bytes, uint32_t stride,
                   std::span<const Run> runs);
};

// The cache lines to prefetch: those of the next chunk or, after the last one, of the first chunk
// of the view that is read next.
struct NextRows {
  StripList k, v;
  uint32_t rows = 0;

  void append(const Segment& segment, uint32_t row, uint32_t of_rows, uint32_t k_dim,
              uint32_t v_dim);
  void append_runs(uint32_t of_rows, const Segment& segment, std::span<const Run> runs,
                   const Queries& queries);
};

// Rows [begin, end) of the chunk, which have the same element types, scales and queries.
struct RowSpan {
  uint32_t begin, end;
  DType k_type, v_type;
  float k_scale, v_scale;  // of Segment
  const float* q;          // Segment::q
  bool latent;             // a value is the front of its key
};

// The rows of a chunk, by place. Places [0, past) are for committed rows. Behind them are the fresh
// rows `fresh`, `fresh`+1, ... of those that a token sees: of all fresh rows if causal, otherwise
// of the token's list. Without a window every place from 0 on has a row. With a window, place i is
// position base + i, and places outside all spans are empty.
struct ChunkRows {
  uint32_t rows = 0;  // one past the last row's place
  uint32_t past = 0, fresh = 0, span_count = 0;
  uint32_t base = 0;  // 0 without a window
  const std::byte* k[kChunkRows];
  const std::byte* v[kChunkRows];
  NextRows next;
  // Added to the logits. Whole vectors may be read past the last row.
  float bias[kChunkRows + 4 * kMaxLanes];
  RowSpan spans[kChunkRows];

  // Sets the place of the next row, which must be at or past `rows`.
  void skip_to(uint32_t place) { rows = place; }
  void append(const Segment& segment, uint32_t row, uint32_t count);
  void append_runs(const Segment& segment, std::span<const Run> runs);
  void truncate(uint32_t count);

 private:
  void add_to_spans(const Segment& segment, uint32_t count);
};

// Places [begin, end) of a chunk.
struct SeenRows {
  uint32_t begin, end;
};

// Throws base::Bug on head sizes, strides and masks that the kernels cannot take.
void check_attention(const View& view, const Queries& queries);

// Returns how many fresh rows a token of the queries sees.
uint32_t fresh_seen(const View& view, const Queries& queries, uint32_t token);

// Gathers the chunk's committed rows and, if the mask is causal, the fresh rows that the last token
// sees. Leaves out rows before the window of the first token.
void gather_rows(const View& view, const Queries& queries, uint32_t chunk, ChunkRows& rows);

// Returns the places of the chunk that a token of the queries sees: 0 to 0 if none.
SeenRows rows_seen(const View& view, const Queries& queries, const ChunkRows& rows, uint32_t token);

// Replaces the chunk's fresh rows by those of the token's list (Queries::visible).
void gather_visible(const View& view, const Queries& queries, uint32_t token, ChunkRows& rows);

// Throws unless n elements can be stored as a row of this type: F32, F16, BF16, static, or kQ8,
// kQ4, kQ3, kQ2 and kKivi4V with a multiple of 32.
void check_row_type(DType type, size_t n);
// Throws unless Table::dot_rows takes rows of this type: F32, F16, BF16, static.
void check_dot_type(DType type);
// Throws unless Table::hadamard takes such blocks.
void check_hadamard(size_t n, size_t block);

}  // namespace kvick::kernels
