#pragma once
// The calibration of this machine, from the file beside the model cache or measured now.

#include "base/cpu.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "plan/calibration.h"

namespace kvick::cli {

// What the pool's threads can do with an instruction set at most. `again`: measured even if the
// file has it. Measuring takes two or three seconds and memory of at most 1 GiB, a quarter of what
// is free. Says on stderr, unless quiet, that it measures, and that the file cannot be written,
// which is no error. Error: where the file should be is unknown.
base::Result<plan::Calibration> machine_limits(base::ThreadPool& pool, base::Isa isa, bool again,
                                               bool quiet);

}  // namespace kvick::cli
