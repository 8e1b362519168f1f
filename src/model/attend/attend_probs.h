#pragma once
// The probabilities that kv::Observer receives, computed from the unfinished softmaxes of chunks.

#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace kvick::model {

// Collects the probabilities of one task at a time. The task's chunks must be computed in order.
class TaskProbs {
 public:
  void start(uint32_t chunks, uint32_t queries);
  // Returns the memory that attend_chunk fills: exp(logit - the chunk's maximum),
  // [queries][kChunkRows].
  float* of(uint32_t chunk);
  // Stores the chunk's maxima, before it is merged with others.
  void keep_max(uint32_t chunk, const float* max);
  // Adds the probabilities of all queries to `rows`: [rows of the view], committed ones first.
  // done: the merged softmax state of all chunks.
  void add_to(const kernels::View& view, const kernels::Queries& queries, kernels::Partial done,
              std::span<float> rows) const;
  // The same for the queries of one of the task's tokens. token: its index in the slot.
  void add_token(const kernels::View& view, const kernels::Queries& queries, kernels::Partial done,
                 uint32_t token, std::span<float> rows) const;

 private:
  // Returns the factor that turns a chunk's values for one query into probabilities: it accounts
  // for the other chunks and the sinks.
  float share(const kernels::Queries& queries, kernels::Partial done, uint32_t query,
              uint32_t chunk) const;
  void add_places(const kernels::View& view, const kernels::Queries& queries, kernels::Partial done,
                  uint32_t query, std::span<float> rows) const;

  uint32_t chunks_ = 0, queries_ = 0;
  std::vector<float> probs_;  // [chunks][queries][kChunkRows]
  std::vector<float> max_;    // [chunks][queries]
};

// Returns the number of committed and fresh rows of a view.
uint32_t rows_of(const kernels::View& view);

}  // namespace kvick::model
