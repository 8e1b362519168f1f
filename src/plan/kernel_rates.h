#pragma once
// How fast the kernels themselves are: what of the machine's reading a matrix product gets, how
// many operations it makes, what a layer takes besides. Measured in a fraction of a second.

#include "base/clock.h"
#include "base/thread_pool.h"
#include "kernels/table.h"
#include "model/config.h"

namespace kvick::plan {

struct MatmulRate {
  double bytes_s = 0;  // of one token by weights that lie in kMatmulBytes of memory
  double ops_s = 0;    // of so many tokens by weights that lie in a cache; a multiply-add being two
};
inline constexpr uint64_t kMatmulBytes = uint64_t{64} << 20;

MatmulRate measure_matmul(base::ThreadPool& pool, const kernels::Table& kernels,
                          kernels::DType type, uint32_t tokens,
                          base::Clock clock = base::steady_seconds);

// Seconds of one layer that are neither products nor attention.
struct LayerOverhead {
  double regions = 0;  // the starts and ends of parallel regions, once for all tokens of a forward
  double per_token = 0;  // norms, activations and their quantising, on one thread
};
LayerOverhead measure_layer_overhead(base::ThreadPool& pool, const kernels::Table& kernels,
                                     const model::Config& config,
                                     base::Clock clock = base::steady_seconds);

}  // namespace kvick::plan
