#include "base/cpu_times.h"

#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace kvick::base {
namespace {

TEST(CpuTimes, HoldWhatTheSystemSays) {
  const CpuTimes times = cpu_times();
  EXPECT_GE(times.cpus, 1u);
  EXPECT_GE(times.cpus_everywhere, times.cpus);
  EXPECT_GE(times.busy_everywhere, times.busy);
  EXPECT_GE(cpu_times().now, times.now);
}

TEST(CpuTimes, CountEverythingButIdlenessAndWaiting) {
  const std::string path = testing::TempDir() + "kvick_stat_" + std::to_string(getpid());
  std::ofstream(path) << "cpu  1 1 1 1 1 1 1 1 0 0\n"
                         "cpu0 100 20 3 5000 700 40 50 6 9 9\n"
                         "cpu4095 1 1 1 9 9 1 1 1 0 0\n"
                         "intr 5\n";
  const CpuTimes times = read_cpu_times(path);
  const double tick = 1 / static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(times.cpus_everywhere, 2u);
  EXPECT_DOUBLE_EQ(times.busy_everywhere, 225 * tick);
  std::filesystem::remove(path);
  EXPECT_EQ(read_cpu_times(path).cpus, 0u) << "no such file";
}

TEST(CpuTimes, OthersShareIsWhatIsBusyWithoutThisProcess) {
  const CpuTimes before = {
      .now = 10, .own = 1, .busy = 100, .busy_everywhere = 400, .cpus = 2, .cpus_everywhere = 8};
  CpuTimes after = before;
  EXPECT_EQ(others_share(before, after), std::nullopt) << "no time has passed";
  after.now = 14;
  EXPECT_EQ(others_share(before, after), 0);
  after.own += 8, after.busy += 8, after.busy_everywhere += 8;
  EXPECT_EQ(others_share(before, after), 0) << "all of it its own";
  after.busy += 2, after.busy_everywhere += 2;
  EXPECT_EQ(others_share(before, after), 0.25);
  after.busy_everywhere += 22;  // other processes on processors outside the affinity mask
  EXPECT_EQ(others_share(before, after), 0.75);
  after.own += 100;  // own time has a finer resolution than the system's busy times
  EXPECT_EQ(others_share(before, after), 0);
  after.cpus = 0;
  EXPECT_EQ(others_share(before, after), std::nullopt) << "the system does not say";
}

}  // namespace
}  // namespace kvick::base
