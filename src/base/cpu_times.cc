#include "base/cpu_times.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "base/clock.h"
#include "base/cores.h"

namespace kvick::base {
namespace {

double process_seconds() {
  timespec spent{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent) != 0) return 0;
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

// Returns the busy ticks of a line "cpu3 user nice system idle iowait irq softirq steal ...".
std::optional<double> busy_ticks(std::istringstream& fields) {
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(fields >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal))
    return std::nullopt;
  return user + nice + system + irq + softirq + steal;
}

}  // namespace

CpuTimes read_cpu_times(const std::filesystem::path& stat) {
  CpuTimes times = {.now = steady_seconds(), .own = process_seconds()};
  const std::vector<unsigned> allowed = allowed_processors();
  if (allowed.empty()) return times;
  const double tick = 1 / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream in(stat);
  for (std::string line; std::getline(in, line) && line.starts_with("cpu");) {
    if (line.size() < 4 || std::isdigit(static_cast<unsigned char>(line[3])) == 0)
      continue;  // the line of sums over all processors
    std::istringstream fields(line.substr(3));
    unsigned cpu = 0;
    fields >> cpu;
    const std::optional<double> ticks = busy_ticks(fields);
    if (!ticks) continue;
    ++times.cpus_everywhere;
    times.busy_everywhere += *ticks * tick;
    if (!std::binary_search(allowed.begin(), allowed.end(), cpu)) continue;
    ++times.cpus;
    times.busy += *ticks * tick;
  }
  return times;
}

CpuTimes cpu_times() { return read_cpu_times("/proc/stat"); }

std::optional<double> others_share(const CpuTimes& before, const CpuTimes& after) {
  const double seconds = after.now - before.now, own = after.own - before.own;
  if (before.cpus == 0 || after.cpus == 0 || !(seconds > 0)) return std::nullopt;
  const auto share = [&](double busy, unsigned cpus) {
    return std::clamp((busy - own) / (seconds * cpus), 0.0, 1.0);
  };
  return std::max(share(after.busy - before.busy, after.cpus),
                  share(after.busy_everywhere - before.busy_everywhere, after.cpus_everywhere));
}

}  // namespace kvick::base
