#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <numeric>
#include <pthread.h>
#include <stdexcept>
#include <vector>

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

TEST(ThreadPool, SaysThatAThreadCannotBeStarted) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);  // more than there are addresses
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  std::string said;
  try {
    ThreadPool pool(3);
  } catch (const std::system_error& error) {
    said = error.what();
  }
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_NE(said.find("the system starts no more threads, one is needed for computing"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace kvick::base
