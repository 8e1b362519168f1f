#pragma once

#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/table.h"

namespace kvick::model {

// What one caller of forward brings: threads, kernels, and buffers that grow to the largest batch
// seen and stay. One forward at a time.
class Workspace {
 public:
  Workspace(base::ThreadPool& team, const kernels::Table& table)
      : pool(team), kernels(table), scratch(team.size()) {}

  base::ThreadPool& pool;
  const kernels::Table& kernels;
  std::vector<base::Arena> scratch;  // one per worker, reset by whoever uses it

  // [count] floats, contents undefined, valid until the next call with the same slot.
  enum Name {
    kHidden,
    kNormed,
    kQkv,
    kAttention,
    kFfn,
    kGated,
    kProjected,
    kCosSin,
    kPartials,
    kNames
  };
  float* floats(Name name, size_t count);

  // x: [tokens][inputs] as matmul takes it, with its quantised copy (made in parallel) or, for
  // float weights, without. Valid until the next call of either.
  const kernels::Activations& quantise(const float* x, uint32_t tokens, uint32_t inputs);
  const kernels::Activations& plain(const float* x, uint32_t tokens, uint32_t inputs);

 private:
  base::Buffer buffers_[kNames];
  base::Buffer q_, scale_, sums_;
  kernels::Activations activations_;
};

}  // namespace kvick::model
