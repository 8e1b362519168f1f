#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kv/values/aging.h"
#include "kv/values/hadamard.h"

namespace kvick::kv {

// What a store keeps of a token: the rows of a group of layers that are alike (LayerSpec).
struct Shape {
  uint32_t layers = 0, kv_heads = 0;
  uint32_t head_dim = 0;  // elements of a key
  // Most tokens of a sequence: the model's context, or a lower limit set by the user. With an
  // endless strategy (Traits::endless) a token sees at most max_tokens rows, itself included.
  uint32_t max_tokens = 0;
  kernels::DType k_type = kernels::DType::kF16, v_type = kernels::DType::kF16;
  std::optional<Aging> aging = {};  // none: rows stay as they were written
  uint32_t v_dim = 0;               // elements of a value; 0: head_dim
  // No values are kept: the first v_dim elements of a key are its value (MLA).
  bool latent = false;
  // Tokens that a query sees, itself included; 0: all. Chunked: those since the last multiple of
  // `window`. Commit gives back rows that no later token can see.
  uint32_t window = 0;
  bool chunked = false;
  // Whether written keys and values are Hadamard-transformed. The store treats them like any other
  // rows; only code that reads single elements has to know.
  Hadamard hadamard = {};
  // Bytes of state per layer and sequence that replace rows (LayerSpec::kState); 0: layers keep
  // rows.
  uint64_t state_bytes = 0;

  // Elements of a key or value: dim() as a query sees it, kept_dim() as it is stored.
  uint32_t dim(bool is_v) const { return is_v && v_dim != 0 ? v_dim : head_dim; }
  uint32_t kept_dim(bool is_v) const { return is_v && latent ? 0 : dim(is_v); }
  HadamardBlocks hadamard_blocks() const {
    return kv::hadamard_blocks(hadamard, dim(false), dim(true), latent);
  }
  // Bytes of one token's key or value in one layer and head, as it is written.
  size_t row_bytes(bool is_v) const {
    return kernels::dtype_bytes(is_v ? v_type : k_type, kept_dim(is_v));
  }
  // Bytes of one token's keys and values over all layers, as they are written.
  uint64_t token_bytes() const {
    return uint64_t{layers} * kv_heads * (row_bytes(false) + row_bytes(true));
  }
  // The shape of the store that keeps a sequence's old rows. Only if `aging` is set.
  Shape of_old_rows() const;
  // First committed row that the next token of a sequence of `tokens` tokens sees. Later tokens see
  // no row before it either.
  uint32_t first_seen(uint32_t tokens) const {
    if (window == 0) return 0;
    if (chunked) return tokens / window * window;
    return tokens < window ? 0 : tokens + 1 - window;
  }
  // Rows that the last of `tokens` tokens sees, itself included.
  uint32_t seen_rows(uint32_t tokens) const {
    return tokens == 0 ? 0 : tokens - first_seen(tokens - 1);
  }
  // Bytes of the committed rows that are still seen in a sequence of `tokens` tokens.
  uint64_t used_bytes(uint32_t tokens) const;
};

}  // namespace kvick::kv
