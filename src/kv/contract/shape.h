#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kv/contract/aging.h"

namespace kvick::kv {

// What a model needs kept.
struct Shape {
  uint32_t layers = 0, kv_heads = 0, head_dim = 0;
  // Of one sequence: the model's context, or less if the user said so. A strategy whose sequences
  // never end shows no more than so many to a token, itself included.
  uint32_t max_tokens = 0;
  kernels::DType k_type = kernels::DType::kF16, v_type = kernels::DType::kF16;
  std::optional<Aging> aging = {};  // none: rows stay as they were written

  // Bytes of one token's key or value in one layer and head, as it is written.
  size_t row_bytes(bool is_v) const {
    return kernels::dtype_bytes(is_v ? v_type : k_type, head_dim);
  }
  // Bytes of one token's keys and values over all layers, as they are written.
  uint64_t token_bytes() const {
    return uint64_t{layers} * kv_heads * (row_bytes(false) + row_bytes(true));
  }
  // Of a sequence's old rows alone.
  Shape of_old_rows() const;
  // Bytes that the committed rows of a sequence of so many tokens take.
  uint64_t used_bytes(uint32_t tokens) const;
};

}  // namespace kvick::kv
