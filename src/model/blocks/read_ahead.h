#pragma once
// Measures which way of prefetching the weights is fastest for a one-token step.

#include <span>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "kernels/table/table.h"

namespace kvick::model {

// Decoding is bound by the speed at which weights arrive. Which prefetching is fastest depends on
// the processor, on how many cores read and on whether the weights are in a cache
// (kernels::ReadAhead). So this multiplies one token with these matrices, all threads together,
// with each way in turn. Each matrix meets each way equally often, with all others in between, as
// in a decoding step: what stays in a cache there stays in it here too.
//
// Only the first 512 MiB of matrices are used. Returns kTwice without measuring for less than 1 MiB
// in all, and for kernels that do not prefetch (plain C++, NEON). Takes four passes, or 20 ms if
// that is longer. Another way must be at least 2 % faster than kTwice to be chosen.
//
// matrices: of linear layers, any number; their data is read.
kernels::ReadAhead choose_read_ahead(std::span<const kernels::Matrix> matrices,
                                     const kernels::Table& kernels, base::ThreadPool& pool,
                                     base::Clock clock = base::steady_seconds);

}  // namespace kvick::model
