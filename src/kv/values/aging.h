#pragma once
// Element types that depend on a row's age.

#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::kv {

// Rows become old in groups of this size: the group size of the types that quantise rows in groups.
inline constexpr uint32_t kAgingRows = kernels::kGroupRows;
inline constexpr uint32_t kMostAgingWindow = uint32_t{1} << 20;

// Old rows are kept in other types than new ones: commit converts them, oldest first. Which rows
// are old depends only on the number of tokens, not on the steps that added them.
struct Aging {
  kernels::DType k_type = kernels::DType::kQ8, v_type = kernels::DType::kQ8;
  uint32_t window = 128;  // newest rows, at least, that stay as written; a multiple of kAgingRows

  // Returns the number of old rows in a sequence of `tokens` committed tokens.
  uint32_t old_rows(uint32_t tokens) const {
    return tokens <= window ? 0 : (tokens - window) / kAgingRows * kAgingRows;
  }
  // Returns an upper bound on the rows that are not old after a commit.
  uint32_t recent_rows() const { return window + kAgingRows; }
};

}  // namespace kvick::kv
