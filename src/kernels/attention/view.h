#pragma once
// What the attention kernel reads: where the rows of one (sequence, layer, KV head) are, in pieces.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/small_vec.h"
#include "kernels/formats/dtype.h"

namespace kvick::kernels {

// Rows [row, row+rows) of a segment hold the tokens at positions pos, pos+1, ...
struct Run {
  uint32_t row, rows, pos;
};

// Rows [row, row+rows).
struct Bucket {
  uint32_t row = 0, rows = 0;
};

// One memory region, one layout, one element type. It borrows: whoever fills a View keeps the
// memory and the runs alive until the step ends.
struct Segment {
  const std::byte* k =
      nullptr;  // row 0 of the keys, already at the asked layer and head: [rows][head_dim]
  const std::byte* v = nullptr;  // row 0 of the values
  uint32_t k_stride = 0;         // bytes from one row to the next
  uint32_t v_stride = 0;
  DType k_type = DType::kF32;
  DType v_type = DType::kF32;
  std::span<const Run> runs;
  const float* q =
      nullptr;  // queries to use here instead of the caller's: [tokens][group][head_dim]
  // What a code of the static types counts (dtype.h); 1 for all others.
  float k_scale = 1, v_scale = 1;
  const float* row_bias = nullptr;  // added to each row's logit, indexed by the segment's row
  // Rows that a kernel may compute over as well: spare ones hold numbers, whichever. Around all of
  // the view's runs, or empty if this memory is not kept so.
  Bucket bucket;
};

// All that one (sequence, layer, kv head) attends to, in order: every row of `past` is seen by
// every query of the step, rows of `fresh` as the step's mask says.
struct View {
  base::SmallVec<Segment, 4> past;
  Segment fresh;
  const float* rest = nullptr;  // one value row [head_dim] that stands for committed rows left out,
  std::span<const float>
      rest_mass;  // and its share of the probability, one per query ([tokens][group])
};

// Rows of a segment, over all its runs.
inline uint32_t rows_of(const Segment& segment) {
  uint32_t rows = 0;
  for (const Run& run : segment.runs) rows += run.rows;
  return rows;
}

}  // namespace kvick::kernels
