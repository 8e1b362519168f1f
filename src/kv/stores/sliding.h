#pragma once
// Sizes of the static sliding cache, by the formulas of its source: "LLM Technical Notes: KV Cache
// Implementation for inference on HTP", the pages on buffer management and buffer size. S there is
// the shape's max_tokens, or its window if that is less: the past is S - 1 rows, and a new one
// makes S.

#include "kv/strategy/strategy.h"

namespace kvick::kv {

struct Sliding {
  // Past rows that a step takes as input, S - 1; padded on the left, so the last ones are valid.
  uint32_t window = 0;
  // Buffer over window, in millionths: 1'000'000 to 2'000'000.
  uint64_t reserve = 2'000'000;

  // Rows of a buffer. Where reserve * (S - 1) is no whole number, the next one.
  uint64_t rows() const { return (window * reserve + 999'999) / 1'000'000; }
  // Rows that are appended between two copies; 0: every commit copies.
  uint64_t spare() const { return rows() - window; }
};

// Error: a reserve that is none.
base::Result<Sliding> sliding_of(const Shape& shape, const Spec& spec);

// The source's size in bytes, 2 (K and V) * layers * heads * reserve * (S - 1) * D * bits / 8, a
// part of a row counted as such; rounded up to whole bytes, UINT64_MAX if larger. Allocated are
// rows() whole rows: with an odd window and a reserve of 1.5 half a row more in each tensor.
uint64_t sliding_formula_bytes(const Shape& shape, const Sliding& sliding);

}  // namespace kvick::kv
