#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <numeric>
#include <pthread.h>
#include <signal.h>
#include <stdexcept>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "base/thread.h"

namespace kvick::base {
namespace {

TEST(ThreadPool, RunsEveryWorkerOncePerRegion) {
  for (const unsigned threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    std::vector<int> calls(threads, 0);
    for (int region = 0; region < 1000; ++region)
      pool.run([&](unsigned worker) { ++calls[worker]; });
    for (const int count : calls) EXPECT_EQ(count, 1000);
  }
}

TEST(ThreadPool, CoversEveryIndexExactlyOnce) {
  ThreadPool pool(3);
  for (const size_t count : {0u, 1u, 2u, 7u, 100u, 1001u})
    for (const size_t grain : {1u, 3u, 64u}) {
      std::vector<std::atomic<int>> seen(count);
      pool.parallel_for(count, grain, [&](size_t begin, size_t end, unsigned worker) {
        EXPECT_LT(worker, 3u);
        for (size_t i = begin; i < end; ++i) ++seen[i];
      });
      for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
    }
}

// Models a processor with fast and slow cores.
TEST(ThreadPool, GivesAWorkerWorkByItsSpeed) {
  ThreadPool pool(2);
  constexpr size_t kPieces = 40;
  std::vector<int> pieces(2, 0);
  pool.parallel_for(kPieces, 1, [&](size_t, size_t, unsigned worker) {
    std::this_thread::sleep_for(std::chrono::milliseconds(worker == 0 ? 2 : 10));
    ++pieces[worker];
  });
  EXPECT_EQ(pieces[0] + pieces[1], static_cast<int>(kPieces));
  EXPECT_GT(pieces[0], static_cast<int>(kPieces) / 2 + 1) << "worker 1 did its half alone";
}

TEST(ThreadPool, WakesWorkersThatHaveParked) {
  ThreadPool pool(3);
  std::atomic<int> calls = 0;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool.run([&](unsigned) { ++calls; });
  }
  EXPECT_EQ(calls, 9);
}

TEST(ThreadPool, ThrowsWhatABodyThrewAndGoesOn) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run([](unsigned worker) {
    if (worker == 1) throw std::runtime_error("worker 1");
  }),
               std::runtime_error);
  int calls = 0;
  pool.run([&](unsigned worker) {
    if (worker == 0) ++calls;
  });
  EXPECT_EQ(calls, 1);
}

// Stops a thread as a scheduler does when it takes the core away: its signal handler waits until
// the test writes to `release`.
struct Held {
  static inline int entered[2], release[2];
  static void wait(int) {
    char byte = 0;
    (void)!write(entered[1], &byte, 1);
    (void)!read(release[0], &byte, 1);
  }
};

TEST(ThreadPool, DoesNotWaitForAWorkerWithoutACore) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer holds signals back";
#endif
  ASSERT_EQ(pipe(Held::entered), 0);
  ASSERT_EQ(pipe(Held::release), 0);
  struct sigaction action = {}, before;
  action.sa_handler = Held::wait;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);

  ThreadPool pool(2);
  std::vector<pthread_t> threads(2);
  pool.run([&](unsigned worker) { threads[worker] = pthread_self(); });
  ASSERT_EQ(pthread_kill(threads[1], SIGUSR1), 0);
  char byte = 0;
  ASSERT_EQ(read(Held::entered[0], &byte, 1), 1);

  std::vector<int> by(100, -1);
  pool.parallel_for(by.size(), 1, [&](size_t begin, size_t end, unsigned worker) {
    for (size_t i = begin; i < end; ++i) by[i] = static_cast<int>(worker);
  });
  EXPECT_EQ(by, std::vector<int>(100, 0));

  ASSERT_EQ(write(Held::release[1], &byte, 1), 1);
  std::vector<int> calls(2, 0);
  pool.run([&](unsigned worker) { ++calls[worker]; });
  EXPECT_EQ(calls, std::vector<int>(2, 1));
  sigaction(SIGUSR1, &before, nullptr);
  for (const int end : {Held::entered[0], Held::entered[1], Held::release[0], Held::release[1]})
    close(end);
}

#if defined(__linux__) && defined(SYS_sched_getattr)

TEST(Thread, AsksForSlicesAndKeepsItsNiceness) {
  std::thread([] {
    const int niceness = nice(3);  // 3, or more if the tests themselves run at a higher niceness
    ASSERT_GE(niceness, 3);
    if (!ask_for_slices(std::chrono::microseconds(300))) GTEST_SKIP() << "no slices here";
    uint64_t attributes[6] = {};
    ASSERT_EQ(syscall(SYS_sched_getattr, 0, attributes, sizeof(attributes), 0), 0);
    EXPECT_EQ(static_cast<int32_t>(attributes[2]), niceness);
    if (attributes[3] == 0) GTEST_SKIP() << "this kernel has no slices";
    EXPECT_EQ(attributes[3], 300'000);
  }).join();
}

#endif

TEST(ThreadPool, SaysThatAThreadCannotBeStarted) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);  // more than the address space
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  std::string said;
  try {
    ThreadPool pool(3);
  } catch (const std::system_error& error) {
    said = error.what();
  }
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_NE(said.find("the system refuses another thread, which is needed for computing"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace kvick::base
