#pragma once
// Which processors teams of threads run on, so that no two teams share a core.

#include <filesystem>
#include <vector>

#include "base/result.h"

namespace kvick::base {

// Threads that compute together, and the processor that each is pinned to. Empty `processors`: the
// system places them.
struct Team {
  unsigned threads = 1;
  std::vector<unsigned> processors;
};

// The hardware threads of one core, which share its execution units.
using Core = std::vector<unsigned>;

// Cores that this process may run on, those of one package adjacent. described: the sysfs folder
// with the CPU topology. A processor without a topology entry counts as a core of its own.
std::vector<Core> available_cores(
    const std::filesystem::path& described = "/sys/devices/system/cpu");

// Divides `threads` (0: one per processor) as evenly as possible among `teams`, each on cores of
// its own. A core's second processor is used only where a team has more threads than cores.
// Errors: fewer cores or threads than teams, fewer processors than threads.
Result<std::vector<Team>> make_teams(const std::vector<Core>& cores, unsigned teams,
                                     unsigned threads);

// Pins the calling thread to `processor`. False: the system refuses.
bool pin_this_thread(unsigned processor);

}  // namespace kvick::base
