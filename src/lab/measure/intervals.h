#pragma once
// Finds how often a strategy allocates memory, and how often its buckets change their width, while
// a sequence grows token by token. This is measured on the strategy itself. All layers and heads
// grow alike, so a store of one layer and one head is enough for any model.

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
  // Rows of float32. spec: with numbers as options (not bmc:r=auto). Store, pool and kernels
  // outlive the probe.
  struct Store {
    kv::Spec spec;
    uint32_t head_dim = 0, max_tokens = 0;
  };
  IntervalProbe(Store store, base::ThreadPool& pool, const kernels::Table& kernels);

  // Returns the range of tokens around `token` that use the same allocation, which the first one
  // made.
  base::Result<Interval> memory(uint32_t token);
  // Returns the range of tokens that attend over a bucket of the same width. Needs Traits::buckets.
  base::Result<Interval> bucket(uint32_t token);

 private:
  // The state after `token` tokens, the last one added in its own step. Neither number ever
  // shrinks.
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
