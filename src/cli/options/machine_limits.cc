#include "cli/options/machine_limits.h"

#include <cstdio>
#include <fmt/format.h>

#include "base/memory.h"
#include "cli/models/models.h"
#include "plan/machine/calibration_file.h"

namespace kvick::cli {
namespace {

// Returns the folder of the calibration file, beside the model cache.
base::Result<std::filesystem::path> limits_folder() {
  KVICK_TRY(const std::filesystem::path models, models_dir());
  return models.parent_path();
}

void keep(const std::filesystem::path& folder, const plan::Calibration& limits, bool quiet) {
  const auto written = plan::write_calibration(folder, limits);
  if (!written.ok() && !quiet)
    fmt::print(stderr, "kvick: warning: {}; the next run measures again\n",
               written.error().message);
}

}  // namespace

base::Result<plan::Calibration> machine_limits(base::ThreadPool& pool, base::Isa isa,
                                               const LimitsOptions& options) {
  KVICK_TRY(const std::filesystem::path folder, limits_folder());
  const auto kept = plan::read_calibration(folder, plan::this_machine(isa, pool.size()));
  const bool spoilt = kept && plan::taken_at_a_worse_moment(*kept, options.others_now);
  if (kept && !options.again && !spoilt) return *kept;
  if (!options.quiet && spoilt && !options.again)
    fmt::print(stderr, "this machine's limits were {}\n", plan::moment_text(kept->moment));
  if (!options.quiet)
    fmt::print(stderr, "measuring how fast this machine reads and computes at most ...\n");
  plan::CalibrateOptions how;
  how.most_bytes = base::available_memory_bytes() / 4;
  plan::Calibration limits = plan::calibrate(pool, kernels::probes(isa), how);
  if (!options.again && kept) limits = plan::highest_of(std::move(limits), *kept);
  keep(folder, limits, options.quiet);
  return limits;
}

base::Status<> keep_raised_limits(const plan::Calibration& limits, bool quiet) {
  KVICK_TRY(const std::filesystem::path folder, limits_folder());
  keep(folder, limits, quiet);
  return base::Done{};
}

}  // namespace kvick::cli
