#pragma once
// How busy the processors are, with this process and with others; kept beside each measurement.

#include <filesystem>
#include <optional>

namespace kvick::base {

// Seconds since some fixed moment. Busy: running any process, or taken away by the host of a
// virtual machine (steal).
struct CpuTimes {
  double now = 0;                // wall time (base::Clock)
  double own = 0;                // processor time of this process, all threads
  double busy = 0;               // on the processors that this process may run on, summed
  double busy_everywhere = 0;    // on all processors, summed
  unsigned cpus = 0;             // processors that this process may run on; 0: unknown
  unsigned cpus_everywhere = 0;  // all
};
// Passed to whatever measures, so that tests can bring their own.
using CpuMeter = CpuTimes (*)();
CpuTimes cpu_times();
// The same, reading `stat` instead of /proc/stat.
CpuTimes read_cpu_times(const std::filesystem::path& stat);

// The share (0 to 1) of processor time that other processes used between two readings: the larger
// of the share on processors this process may run on and that on all, which share memory and
// caches. The system counts in steps of 10 ms. None: it does not say, or no time has passed.
std::optional<double> others_share(const CpuTimes& before, const CpuTimes& after);

}  // namespace kvick::base
