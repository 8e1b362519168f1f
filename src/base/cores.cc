#include "base/cores.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sched.h>
#include <tuple>

#include "base/check.h"
#include "base/cpu.h"

namespace kvick::base {
namespace {

std::vector<unsigned> available_processors() {
  cpu_set_t set;
  std::vector<unsigned> processors;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (unsigned i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) processors.push_back(i);
  } else {  // more processors than a cpu_set_t can hold
    for (unsigned i = 0; i < available_cpus(); ++i) processors.push_back(i);
  }
  return processors;
}

int number_in(const std::filesystem::path& file, int fallback) {
  int number = fallback;
  std::ifstream in(file);
  return in >> number ? number : fallback;
}

// Returns the processors of the cores in [begin, end): the first of every core, then the second of
// every core, and so on.
std::vector<unsigned> in_order_of_use(std::vector<Core>::const_iterator begin,
                                      std::vector<Core>::const_iterator end) {
  std::vector<unsigned> processors;
  for (size_t sibling = 0, before = 0;; ++sibling, before = processors.size()) {
    for (auto core = begin; core != end; ++core)
      if (sibling < core->size()) processors.push_back((*core)[sibling]);
    if (processors.size() == before) return processors;
  }
}

}  // namespace

std::vector<Core> available_cores(const std::filesystem::path& described) {
  std::map<std::tuple<int, int, int>, Core> cores;
  for (const unsigned processor : available_processors()) {
    const auto topology = described / fmt::format("cpu{}", processor) / "topology";
    const int package = number_in(topology / "physical_package_id", 0);
    const int core = number_in(topology / "core_id", -1);
    // A processor whose core number is unknown counts as a core of its own.
    const int own = core < 0 ? static_cast<int>(processor) : -1;
    cores[{package, core, own}].push_back(processor);
  }
  std::vector<Core> all;
  for (auto& [key, core] : cores) all.push_back(std::move(core));
  return all;
}

Result<std::vector<Team>> make_teams(const std::vector<Core>& cores, unsigned teams,
                                     unsigned threads) {
  KVICK_CHECK(teams >= 1, "{} teams", teams);
  const size_t processors = in_order_of_use(cores.begin(), cores.end()).size();
  if (teams > cores.size())
    return fail("{} instances need as many cores, but this process may use {}", teams,
                cores.size());
  if (threads == 0) threads = static_cast<unsigned>(processors);
  if (threads < teams)
    return fail("{} instances need a thread each, but there are {} in all", teams, threads);
  std::vector<Team> all;
  for (size_t i = 0; i < teams; ++i) {
    const auto at = [&](size_t team) {
      return cores.begin() + static_cast<ptrdiff_t>(cores.size() * team / teams);
    };
    Team team = {.threads = static_cast<unsigned>(threads * (i + 1) / teams - threads * i / teams),
                 .processors = in_order_of_use(at(i), at(i + 1))};
    if (team.threads > team.processors.size())
      return fail(
          "{} threads in {} instances are more than their cores have room for; ask for at most {}",
          threads, teams, processors);
    team.processors.resize(team.threads);
    all.push_back(std::move(team));
  }
  return all;
}

bool pin_this_thread(unsigned processor) {
  if (processor >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace kvick::base
