#pragma once
// Measures how busy the processors are with this process and with others. Reports store the result
// with each measurement.

#include <filesystem>
#include <optional>

namespace kvick::base {

// One reading of the processor times, in seconds. A processor is busy while it runs any process, or
// while the host of a virtual machine takes it away (steal).
struct CpuTimes {
  double now = 0;                // wall time (base::Clock)
  double own = 0;                // processor time of this process, all threads
  double busy = 0;               // on the processors that this process may run on, summed
  double busy_everywhere = 0;    // on all processors, summed
  unsigned cpus = 0;             // processors that this process may run on; 0: unknown
  unsigned cpus_everywhere = 0;  // all processors of the machine
};
// Code that measures takes a CpuMeter as a parameter, so that tests can pass their own.
using CpuMeter = CpuTimes (*)();
CpuTimes cpu_times();
// Does the same as cpu_times(), but reads `stat` instead of /proc/stat.
CpuTimes read_cpu_times(const std::filesystem::path& stat);

// Returns the share (0 to 1) of processor time that other processes used between two readings. It
// is the larger of two shares: on the processors this process may run on, and on all processors,
// because those share memory and caches. The system counts in steps of 10 ms. Returns nullopt if
// the system gives no times or no time has passed.
std::optional<double> others_share(const CpuTimes& before, const CpuTimes& after);

}  // namespace kvick::base
