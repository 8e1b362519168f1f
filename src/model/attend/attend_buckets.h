#pragma once
// Attention of a batch by a library's matrix products over whole buckets
// (kernels/attention/bucket_attention.h), instead of kvick's kernels over the existing rows.

#include <span>

#include "kernels/attention/attention.h"
#include "kernels/attention/bucket_attention.h"
#include "model/core/config.h"
#include "model/core/workspace.h"

namespace kvick::model {

// One slot of a batch: the views of its KV heads, and its part of q and out.
struct BucketSlot {
  std::span<const kernels::View> views;  // per KV head; all with a bucket of float32 rows
  uint32_t tokens = 0;
  const float* q = nullptr;                            // [tokens][heads][k_dim]
  float* out = nullptr;                                // [tokens][heads][v_dim]
  const std::span<const uint32_t>* visible = nullptr;  // kernels::Queries::visible
  uint32_t position = 0;                               // kernels::Queries::position
};

// Computes softmax(scale q k^T) v for all slots, in a layer that kernels::bucket_attention_serves()
// accepts. A slot with one token takes one product for all heads of a worker. A slot with several
// tokens takes one product per head and 32 tokens.
void attend_buckets(const LayerConfig& layer, std::span<const BucketSlot> slots,
                    kernels::BucketAttention& library, Workspace& workspace);

}  // namespace kvick::model
