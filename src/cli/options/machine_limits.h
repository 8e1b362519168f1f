#pragma once
// The calibration of this machine, from the file beside the model cache or measured now.

#include <optional>

#include "base/cpu.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "plan/machine/calibration.h"

namespace kvick::cli {

struct LimitsOptions {
  bool again = false;  // measure even if the file has a calibration
  bool quiet = false;  // print nothing on stderr
  // Share of CPU time that other programs used recently. If the file was measured while they used
  // more than twice this share, the limits are measured again, and can only rise.
  std::optional<double> others_now;
};

// Returns the highest rates that the pool's threads reach with an instruction set. Measuring takes
// two or three seconds, and at most 1 GiB and a quarter of the free memory. Prints on stderr that
// it measures, and why. A file that cannot be written gives a warning. Error: the file's folder is
// unknown.
base::Result<plan::Calibration> machine_limits(base::ThreadPool& pool, base::Isa isa,
                                               const LimitsOptions& options);

// Writes limits that runs have raised (plan::raise_limits).
base::Status<> keep_raised_limits(const plan::Calibration& limits, bool quiet);

}  // namespace kvick::cli
