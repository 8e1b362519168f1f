#include "cli/machine_limits.h"

#include <cstdio>
#include <fmt/format.h>

#include "base/memory.h"
#include "cli/models.h"
#include "plan/calibration_file.h"

namespace kvick::cli {

base::Result<plan::Calibration> machine_limits(base::ThreadPool& pool, base::Isa isa, bool again,
                                               bool quiet) {
  KVICK_TRY(const std::filesystem::path models, models_dir());
  const std::filesystem::path folder = models.parent_path();
  const plan::Machine machine = {
      .cpu = base::cpu_name(), .isa = std::string(base::isa_name(isa)), .threads = pool.size()};
  if (!again)
    if (auto found = plan::read_calibration(folder, machine)) return *std::move(found);
  if (!quiet)
    fmt::print(stderr, "measuring how fast this machine reads and computes at most ...\n");
  plan::CalibrateOptions options;
  options.most_bytes = base::available_memory_bytes() / 4;
  plan::Calibration limits = plan::calibrate(pool, kernels::probes(isa), options);
  const auto written = plan::write_calibration(folder, limits);
  if (!written.ok() && !quiet)
    fmt::print(stderr, "kvick: warning: {}; the next run measures again\n",
               written.error().message);
  return limits;
}

}  // namespace kvick::cli
