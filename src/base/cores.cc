#include "base/cores.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <memory>
#include <new>
#include <tuple>

#include "base/check.h"

namespace kvick::base {
namespace {

// Far more than any system has; Linux is built for at most 8192.
constexpr unsigned kMostProcessors = 1U << 20;

// A set of processors, empty at first. A cpu_set_t of its own holds CPU_SETSIZE (1024) only.
class ProcessorSet {
 public:
  explicit ProcessorSet(unsigned processors)
      : bytes_(CPU_ALLOC_SIZE(processors)), set_(CPU_ALLOC(processors)) {
    if (set_ == nullptr) throw std::bad_alloc();
    CPU_ZERO_S(bytes_, set_.get());
  }
  size_t bytes() const { return bytes_; }
  cpu_set_t* get() { return set_.get(); }
  unsigned processors() const { return static_cast<unsigned>(8 * bytes_); }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  size_t bytes_;
  std::unique_ptr<cpu_set_t, Free> set_;
};

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

std::vector<unsigned> allowed_processors(Affinity affinity) {
  std::vector<unsigned> processors;
  for (unsigned room = CPU_SETSIZE; room <= kMostProcessors; room *= 2) {
    ProcessorSet set(room);
    if (affinity(set.bytes(), set.get()) != 0) {
      if (errno == EINVAL) continue;  // the system has more processors than the set
      return processors;
    }
    for (unsigned i = 0; i < set.processors(); ++i)
      if (CPU_ISSET_S(i, set.bytes(), set.get())) processors.push_back(i);
    return processors;
  }
  return processors;
}

std::vector<unsigned> allowed_processors() {
  return allowed_processors(
      [](size_t bytes, cpu_set_t* set) { return sched_getaffinity(0, bytes, set); });
}

std::vector<Core> available_cores(const std::filesystem::path& described) {
  std::map<std::tuple<int, int, int>, Core> cores;
  std::vector<unsigned> processors = allowed_processors();
  if (processors.empty()) processors.push_back(0);  // as available_cpus(): one
  for (const unsigned processor : processors) {
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
  if (processor >= kMostProcessors) return false;
  ProcessorSet set(processor + 1);
  CPU_SET_S(processor, set.bytes(), set.get());
  return sched_setaffinity(0, set.bytes(), set.get()) == 0;
}

}  // namespace kvick::base
