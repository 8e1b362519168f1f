#pragma once
// How often a strategy allocates memory, and how often its buckets change their width, while a
// sequence grows token by token. Measured on the strategy itself: all layers and heads grow alike,
// so a store of one layer and one head, filled in pieces, tells it for any model.

#include <map>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/table/table.h"
#include "kv/registry/registry.h"

namespace kvick::lab {

// Tokens first to last of a sequence, counted from 1.
struct Interval {
  uint32_t first = 1, last = 1;
  uint32_t tokens() const { return last - first + 1; }
  bool operator==(const Interval&) const = default;
};

class IntervalProbe {
 public:
  // Rows of float32. spec: its options are numbers (not bmc:r=auto). All three outlive it.
  struct Store {
    kv::Spec spec;
    uint32_t head_dim = 0, max_tokens = 0;
  };
  IntervalProbe(Store store, base::ThreadPool& pool, const kernels::Table& kernels);

  // The range of tokens around `token` that use the same allocation, made for the first of them.
  base::Result<Interval> memory(uint32_t token);
  // The range of tokens that attend over a bucket of the same width. Only if Traits::buckets.
  base::Result<Interval> bucket(uint32_t token);

 private:
  // The state after `token` tokens, the newest in a step of its own. Neither number ever shrinks.
  struct State {
    uint64_t allocated_bytes = 0, bucket_rows = 0;
  };
  base::Result<State> state(uint32_t token);
  base::Result<State> make_state(uint32_t token) const;
  base::Result<Interval> interval(uint64_t State::*field, uint32_t token);

  Store store_;
  base::ThreadPool& pool_;
  const kernels::Table& kernels_;
  std::map<uint32_t, State> states_;
};

}  // namespace kvick::lab
