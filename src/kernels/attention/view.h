#pragma once
// Where the rows of one (sequence, layer, KV head) are in memory: the input of the attention
// kernels.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/small_vec.h"
#include "kernels/formats/dtype.h"

namespace kvick::kernels {

// Rows [row, row+rows) of a segment hold the tokens at positions pos, pos+1, ... Positions are read
// only if the queries have a window (Queries::window).
struct Run {
  uint32_t row, rows, pos;
};

// Rows [row, row+rows).
struct Bucket {
  uint32_t row = 0, rows = 0;
};

// Rows in one memory region, with one layout and the same element types. Borrows: whoever fills a
// View keeps the memory and the runs alive until the step ends.
struct Segment {
  // Row 0 of the keys of this layer and head: [rows][k_dim].
  const std::byte* k = nullptr;
  // Row 0 of the values: [rows][v_dim]. For latent rows v == k, with the same stride, type and
  // scale: the first v_dim elements of a key are its value. They cannot be of the KIVI types, whose
  // keys have other scales than values.
  const std::byte* v = nullptr;
  uint32_t k_stride = 0;  // bytes from one row to the next
  uint32_t v_stride = 0;
  DType k_type = DType::kF32;
  DType v_type = DType::kF32;
  std::span<const Run> runs;
  const float* q = nullptr;  // queries to use here instead of Queries::q: [tokens][group][k_dim]
  // Scales of the codes of static types (dtype.h); 1 for all other types.
  float k_scale = 1, v_scale = 1;
  const float* row_bias = nullptr;  // added to each row's logit, indexed by the segment's row
  // A range around all of the view's runs, which a kernel may compute over as a whole: its spare
  // rows hold arbitrary numbers. Empty if the store does not promise that.
  Bucket bucket;
};

// The rows of one (sequence, layer, KV head) that a step may attend to: committed rows, then the
// step's own. Queries says which of them a query sees: without a window all of `past`, with a
// window the rows inside it. Rows before the window of the first query are never read, so a store
// may show them or leave them out, whichever is cheaper; the bits are the same.
struct View {
  // In order. With a window their positions ascend and are below Queries::position; missing
  // positions count as rows that no query sees.
  base::SmallVec<Segment, 4> past;
  Segment fresh;                     // rows of the step's tokens, by fresh index
  const float* rest = nullptr;       // one value row [v_dim] for committed rows that were left out
  std::span<const float> rest_mass;  // its share of the probability: [tokens][group]
};

// Returns the rows of a segment, over all its runs.
inline uint32_t rows_of(const Segment& segment) {
  uint32_t rows = 0;
  for (const Run& run : segment.runs) rows += run.rows;
  return rows;
}

}  // namespace kvick::kernels
