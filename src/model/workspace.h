#pragma once

#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/bucket_attention.h"
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
  // Null: attention by our kernels. Else by this library's products over whole buckets, which the
  // store must have (kv::Traits::buckets), in float32.
  kernels::BucketAttention* library = nullptr;
  std::vector<base::Arena> scratch;  // one per worker, reset by whoever uses it

  // [count] floats, contents undefined, valid until the next call with the same slot.
  enum Name { kHidden, kNormed, kQkv, kAttention, kFfn, kProjected, kCosSin, kPartials, kNames };
  float* floats(Name name, size_t count);

  // Calls body(token) for each, in parallel if that is worth it; floats: what it touches of one.
  using TokenBody = base::FunctionRef<void(uint32_t token)>;
  void for_tokens(uint32_t tokens, size_t floats, TokenBody body);

  // x: [tokens][inputs] as matmul takes it, with its quantised copy or, for float weights, without.
  // prepare(token) is called before that row of x is read, once per token, from several threads.
  // Valid until the next call.
  const kernels::Activations& activations(const float* x, uint32_t tokens, uint32_t inputs,
                                          bool quantised, TokenBody prepare);

 private:
  void quantise_tile(TokenBody prepare);
  void quantise_tiles(TokenBody prepare);

  base::Buffer buffers_[kNames];
  base::Buffer q_, scale_, sums_;
  kernels::Activations activations_;
};

}  // namespace kvick::model
