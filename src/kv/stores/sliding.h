#pragma once
// Sizes of the static sliding cache, by the formulas of its source: "LLM Technical Notes: KV Cache
// Implementation for inference on HTP", the pages on buffer management and buffer size. The
// source's S is the shape's max_tokens, or the window if smaller: S - 1 past rows and the new one.

#include "kv/strategy/strategy.h"

namespace kvick::kv {

struct Sliding {
  // Past rows that a step takes as input, S - 1. Padded on the left: the valid rows are the last
  // ones.
  uint32_t window = 0;
  // Buffer size divided by window, in millionths: 1'000'000 to 2'000'000.
  uint64_t reserve = 2'000'000;

  // Rows of a buffer: reserve * (S - 1), rounded up to whole rows.
  uint64_t rows() const { return (window * reserve + 999'999) / 1'000'000; }
  // Rows appended between two copies; 0: every commit copies.
  uint64_t spare() const { return rows() - window; }
};

// Error: an invalid reserve.
base::Result<Sliding> sliding_of(const Shape& shape, const Spec& spec);

// Returns the source's size in bytes, 2 (K and V) * layers * heads * reserve * (S - 1) * D * bits /
// 8, where a fraction of a row counts as a fraction; rounded up to whole bytes, UINT64_MAX if
// larger. The store allocates rows() whole rows: with an odd window and a reserve of 1.5 half a row
// more per tensor.
uint64_t sliding_formula_bytes(const Shape& shape, const Sliding& sliding);

}  // namespace kvick::kv
