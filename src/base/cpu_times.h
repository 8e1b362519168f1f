#pragma once
// How busy the processors are, and with whose work: what a measurement must know about its moment.

#include <filesystem>
#include <optional>

namespace kvick::base {

// Seconds since some fixed moment. Busy: computing for any process, or taken away by the host of a
// virtual machine (steal).
struct CpuTimes {
  double now = 0;                // of the clock
  double own = 0;                // of processor time that this process took, all threads
  double busy = 0;               // on the processors that this process may run on, summed
  double busy_everywhere = 0;    // on all processors, summed
  unsigned cpus = 0;             // that this process may run on; 0: the system does not say
  unsigned cpus_everywhere = 0;  // all
};
// Passed to whatever measures, so that tests can bring their own.
using CpuMeter = CpuTimes (*)();
CpuTimes cpu_times();
// The same with the counters of another file.
CpuTimes read_cpu_times(const std::filesystem::path& stat);

// The share (0 to 1) of the processors that others used between two moments: of those that this
// process may run on or, where that is more, of all, which share memory and caches with it. The
// system counts in steps of 10 ms. None: it does not say, or no time has passed.
std::optional<double> others_share(const CpuTimes& before, const CpuTimes& after);

}  // namespace kvick::base
