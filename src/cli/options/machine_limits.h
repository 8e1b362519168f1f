#pragma once
// The calibration of this machine, from the file beside the model cache or measured now.

#include <optional>

#include "base/cpu.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "plan/machine/calibration.h"

namespace kvick::cli {

struct LimitsOptions {
  bool again = false;  // measure even if the file has it
  bool quiet = false;  // say nothing on stderr
  // The share of the processors that others used of late: where the file was measured beside more
  // than twice that, it is measured again, and limits only rise.
  std::optional<double> others_now;
};

// What the pool's threads can do with an instruction set at most. Measuring takes two or three
// seconds and memory of at most 1 GiB, a quarter of what is free. Says on stderr that it measures,
// and why, and that the file cannot be written, which is no error. Error: where the file should be
// is unknown.
base::Result<plan::Calibration> machine_limits(base::ThreadPool& pool, base::Isa isa,
                                               const LimitsOptions& options);

// Keeps limits that runs have raised (plan::raise_limits).
base::Status<> keep_raised_limits(const plan::Calibration& limits, bool quiet);

}  // namespace kvick::cli
