#pragma once
// Which processors teams of threads run on, so that no two teams share a core.

#include <filesystem>
#include <vector>

#include "base/result.h"

namespace kvick::base {

// Threads that compute together, and the processor that each stays on; no processors: wherever the
// system puts them.
struct Team {
  unsigned threads = 1;
  std::vector<unsigned> processors;
};

// Processors of one core, which share what it computes with.
using Core = std::vector<unsigned>;

// Cores that this process may run on, those of a package side by side. described: where the system
// says which processor belongs to which; one of which it says nothing is a core of its own.
std::vector<Core> available_cores(
    const std::filesystem::path& described = "/sys/devices/system/cpu");

// Teams of so many threads in all (0: one for each processor), as equal as can be, on cores of
// their own. A core's second processor is used only where a team has more threads than cores.
// Errors: fewer cores or threads than teams, fewer processors than threads.
Result<std::vector<Team>> make_teams(const std::vector<Core>& cores, unsigned teams,
                                     unsigned threads);

// The calling thread runs nowhere else from now on. False: the system refuses.
bool pin_this_thread(unsigned processor);

}  // namespace kvick::base
