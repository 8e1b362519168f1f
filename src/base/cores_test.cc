#include "base/cores.h"

#include <cerrno>
#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <set>
#include <thread>
#include <unistd.h>

#include "base/cpu.h"
#include "base/thread_pool.h"

namespace kvick::base {
namespace {

std::vector<std::vector<unsigned>> processors_of(const std::vector<Team>& teams) {
  std::vector<std::vector<unsigned>> all;
  for (const Team& team : teams) all.push_back(team.processors);
  return all;
}

TEST(Cores, HoldEachAvailableProcessorOnce) {
  std::set<unsigned> seen;
  size_t count = 0;
  for (const Core& core : available_cores()) {
    EXPECT_FALSE(core.empty());
    seen.insert(core.begin(), core.end());
    count += core.size();
  }
  EXPECT_EQ(count, seen.size());
  EXPECT_EQ(count, available_cpus());
}

// A system whose set of processors has 4096 bits.
TEST(Cores, MayBeMoreThanASetOfTheUsualSizeHolds) {
  int calls = 0;
  const auto affinity = [&](size_t bytes, cpu_set_t* set) {
    ++calls;
    if (bytes < 4096 / 8) {
      errno = EINVAL;
      return -1;
    }
    for (const unsigned processor : {3U, 1024U, 4095U}) CPU_SET_S(processor, bytes, set);
    return 0;
  };
  EXPECT_EQ(allowed_processors(affinity), (std::vector<unsigned>{3, 1024, 4095}));
  EXPECT_EQ(calls, 3);  // sets of 1024, 2048 and 4096
}

TEST(Cores, AreNoneIfTheSystemDoesNotSay) {
  int calls = 0;
  const auto refuses = [&](size_t, cpu_set_t*) {
    ++calls;
    errno = EPERM;
    return -1;
  };
  EXPECT_EQ(allowed_processors(refuses), std::vector<unsigned>());
  EXPECT_EQ(calls, 1);
  const auto always_too_small = [&](size_t, cpu_set_t*) {
    errno = EINVAL;
    return -1;
  };
  EXPECT_EQ(allowed_processors(always_too_small), std::vector<unsigned>());
}

TEST(Cores, AreTheSystemsAndSideBySideInTheirPackage) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("kvick-cores-" + std::to_string(getpid()));
  const auto describe = [&](const std::string& core) {
    for (const Core& one : available_cores())
      for (const unsigned processor : one) {
        const auto topology = folder / ("cpu" + std::to_string(processor)) / "topology";
        std::filesystem::create_directories(topology);
        std::ofstream(topology / "core_id") << core << "\n";
        std::ofstream(topology / "physical_package_id") << processor % 2 << "\n";
      }
  };
  describe("7");  // all processors of a package are one core
  const size_t packages = std::min(available_cpus(), 2u);
  EXPECT_EQ(available_cores(folder).size(), packages);
  describe("unknown");
  EXPECT_EQ(available_cores(folder).size(), available_cpus());
  std::filesystem::remove_all(folder);
  EXPECT_EQ(available_cores(folder).size(), available_cpus());
}

TEST(Teams, HaveCoresOfTheirOwnAndSecondProcessorsLast) {
  const std::vector<Core> cores = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  using Processors = std::vector<std::vector<unsigned>>;
  EXPECT_EQ(processors_of(make_teams(cores, 2, 0).value()),
            (Processors{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(processors_of(make_teams(cores, 2, 4).value()), (Processors{{0, 1}, {2, 3}}));
  EXPECT_EQ(processors_of(make_teams(cores, 4, 5).value()), (Processors{{0}, {1}, {2}, {3, 7}}));
  EXPECT_EQ(processors_of(make_teams(cores, 1, 3).value()), (Processors{{0, 1, 2}}));
}

TEST(Teams, AreRefusedWhereTheyWouldShareACore) {
  const std::vector<Core> cores = {{0, 2}, {1, 3}};
  EXPECT_EQ(make_teams(cores, 3, 0).error().message,
            "3 instances need as many cores, but this process may use 2");
  EXPECT_EQ(make_teams(cores, 2, 1).error().message,
            "2 instances need a thread each, but there are 1 in all");
  EXPECT_EQ(make_teams(cores, 2, 5).error().message,
            "5 threads in 2 instances are more than their cores have room for; ask for at most 4");
}

TEST(Teams, StayOnTheirProcessors) {
  const std::vector<Team> teams = make_teams(available_cores(), 1, 0).value();
  std::thread([&] {  // a thread of its own, because pinning changes its affinity
    ThreadPool pool(teams.front());
    pool.pin_caller();
    std::vector<int> on(pool.size(), -1);
    pool.run([&](unsigned worker) { on[worker] = sched_getcpu(); });
    for (size_t i = 0; i < on.size(); ++i)
      EXPECT_EQ(on[i], static_cast<int>(teams.front().processors[i]));
  })
      .join();
}

}  // namespace
}  // namespace kvick::base
