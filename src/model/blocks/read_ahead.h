#pragma once
// Measures how early a pass of one token over the weights should prefetch them.

#include <span>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "kernels/table/table.h"

namespace kvick::model {

// Decode is bound by how fast weights come, and what gets them fastest depends on the processor,
// on how many cores read and on whether the weights are in a cache (kernels::ReadAhead). So one
// token is multiplied with these matrices, all threads together, under each way in turn. Each
// matrix meets each way equally often and with all others in between, as in a decode step: what
// stays in a cache then stays in it here. Matrices behind the first 512 MiB are left out; less than
// 1 MiB in all, and kernels that ask for nothing early (plain C++, NEON), are kTwice without a
// look. Takes four passes, or 20 ms if that is longer. A way other
// than kTwice must be at least 2 % faster than it.
//
// matrices: of linear layers, any number; their data is read.
kernels::ReadAhead choose_read_ahead(std::span<const kernels::Matrix> matrices,
                                     const kernels::Table& kernels, base::ThreadPool& pool,
                                     base::Clock clock = base::steady_seconds);

}  // namespace kvick::model
