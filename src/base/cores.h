#pragma once
// Which processors each team of threads runs on. No two teams share a core.

#include <filesystem>
#include <sched.h>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

namespace kvick::base {

// Threads that compute together, and the processor that each is pinned to. If `processors` is
// empty, the operating system places the threads.
struct Team {
  unsigned threads = 1;
  std::vector<unsigned> processors;
};

// The hardware threads of one core, which share its execution units.
using Core = std::vector<unsigned>;

// Returns the processors that this process may run on, in ascending order; empty if the system does
// not say. affinity: as sched_getaffinity for this process; it fails with EINVAL if the set is
// smaller than the system's.
using Affinity = FunctionRef<int(size_t bytes, cpu_set_t* set)>;
std::vector<unsigned> allowed_processors(Affinity affinity);
std::vector<unsigned> allowed_processors();

// Returns the cores that this process may run on; cores of one package are adjacent. described: the
// sysfs folder with the CPU topology. A processor without a topology entry counts as a core of its
// own.
std::vector<Core> available_cores(
    const std::filesystem::path& described = "/sys/devices/system/cpu");

// Divides `threads` (0: one per processor) as evenly as possible among `teams`. No two teams share
// a core. A core's second processor is used only where a team has more threads than cores. Errors:
// fewer cores or threads than teams, fewer processors than threads.
Result<std::vector<Team>> make_teams(const std::vector<Core>& cores, unsigned teams,
                                     unsigned threads);

// Pins the calling thread to `processor`. Returns false if the system refuses.
bool pin_this_thread(unsigned processor);

}  // namespace kvick::base
