#pragma once
// Element types that depend on a row's age.

#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::kv {

// Rows become old in groups of this size, that of the types which quantise rows in groups.
inline constexpr uint32_t kAgingRows = kernels::kGroupRows;
inline constexpr uint32_t kMostAgingWindow = uint32_t{1} << 20;

// Old rows are kept in other types than new ones: commit rewrites them, oldest first. Which rows
// are old follows from the number of tokens alone, not from the steps that brought them.
struct Aging {
  kernels::DType k_type = kernels::DType::kQ8, v_type = kernels::DType::kQ8;
  uint32_t window = 128;  // newest rows, at least, that stay as written; a multiple of kAgingRows

  // Old rows of a sequence with `tokens` committed tokens.
  uint32_t old_rows(uint32_t tokens) const {
    return tokens <= window ? 0 : (tokens - window) / kAgingRows * kAgingRows;
  }
  // Upper bound on the rows that are not old after a commit.
  uint32_t recent_rows() const { return window + kAgingRows; }
};

}  // namespace kvick::kv
