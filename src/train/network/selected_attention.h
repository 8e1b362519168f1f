#pragma once
// Attention over the rows that a predictor selects (MAPLE, algorithm 1), and the error of its
// predicted scores (equation 2): the parts of the loss in equation 3.

#include "train/network/tensors.h"

namespace kvick::train {

// The number of rows that a token reads besides its own: kv::Selection::of, over the tokens before
// it.
struct RowBudget {
  double share = 0.25;  // of the tokens before it
  uint64_t least = 0;   // minimum number of rows, even if the share is smaller
  uint64_t sinks = 4, recent = 32;

  // Of `past` rows, `take` rows in [first, last) are selected. The rows outside that range are
  // always read.
  struct Choosing {
    uint64_t first = 0, last = 0, take = 0;
  };
  Choosing of(uint64_t past) const;
};

// Returns which rows each query reads, [B, kv_heads, queries, T] in bool. predicted: scores [B,
// heads, queries, T] of the last tokens of T. A row's weight is its predicted probability over
// [first, last), summed over the query heads of its KV head; the heaviest rows are selected. No
// gradients.
Tensor chosen_rows(const Tensor& predicted, int64_t kv_heads, const RowBudget& budget);

struct Selected {
  Tensor out;    // [B, heads, T, head_dim]
  Tensor error;  // mean square of predicted minus true scores over causal pairs, less each query's
                 // mean
};

// q: [B, heads, T, head_dim], k, v: [B, kv_heads, T, head_dim] after rotary position; low_q:
// [heads, rank, head_dim], low_k: [kv_heads, rank, head_dim], the form `heads` of
// kv/select/predictor.h.
Selected selected_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& low_q,
                            const Tensor& low_k, const RowBudget& budget);

}  // namespace kvick::train
