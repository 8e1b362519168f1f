#pragma once
// Attention over the rows that a predictor chooses (MAPLE, algorithm 1), and the error of its
// predicted scores (equation 2): the parts of the loss in equation 3.

#include "train/network/tensors.h"

namespace kvick::train {

// Which rows a token reads beside its own: kv::Selection::of, over the tokens before it.
struct RowBudget {
  double share = 0.25;  // of the tokens before it
  uint64_t least = 0;   // least rows, even if the share is smaller
  uint64_t sinks = 4, recent = 32;

  // Of `past` rows, `take` of [first, last) are chosen; the rows outside are always read.
  struct Choosing {
    uint64_t first = 0, last = 0, take = 0;
  };
  Choosing of(uint64_t past) const;
};

// For every query, which rows are read: [B, kv_heads, queries, T], true or false. predicted: scores
// [B, heads, queries, T] of the last tokens of T. A row's weight is its predicted probability over
// [first, last), summed over the query heads of its KV head; the heaviest are taken. No gradients.
Tensor chosen_rows(const Tensor& predicted, int64_t kv_heads, const RowBudget& budget);

struct Selected {
  Tensor out;    // [B, heads, T, head_dim]
  Tensor error;  // mean square of predicted less true scores over causal pairs, without rows' means
};

// q: [B, heads, T, head_dim], k, v: [B, kv_heads, T, head_dim] after rotary position; low_q:
// [heads, rank, head_dim], low_k: [kv_heads, rank, head_dim], the form `heads` of
// kv/select/predictor.h.
Selected selected_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& low_q,
                            const Tensor& low_k, const RowBudget& budget);

}  // namespace kvick::train
