#include "engine/sharing/queue_pace.h"

#include <gtest/gtest.h>

namespace kvick::engine {
namespace {

// A queue that never empties: `at_once` jobs begin every `seconds`, with ten observations in
// between.
struct Queue {
  QueuePace pace;
  double now = 0;
  uint64_t begun = 0;

  void run(int rounds, uint32_t at_once, double seconds, uint32_t waiting = 100) {
    for (int i = 0; i < rounds * 10; ++i) {
      now += seconds / 10;
      if (i % 10 == 9) begun += at_once;
      pace.observe(now, waiting, begun);
    }
  }
};

TEST(QueuePace, IsThatOfTheJobsThatBeganBefore) {
  for (const uint32_t at_once : {1U, 16U, 64U}) {
    Queue queue{.pace = QueuePace(64)};
    queue.run(40, at_once, 15);
    const double right = 20 * 15.0 / at_once;  // 20 jobs ahead; at_once jobs begin every 15 s
    EXPECT_NEAR(queue.pace.wait_seconds(20), right, 0.25 * right) << at_once;
  }
}

TEST(QueuePace, HoldsNobodyUpWhereNobodyWaits) {
  Queue queue{.pace = QueuePace(4)};
  EXPECT_EQ(queue.pace.wait_seconds(1000), 0);
  queue.run(10, 1, 5);
  EXPECT_GT(queue.pace.wait_seconds(10), 40);
  queue.run(1, 1, 1, 0);
  EXPECT_EQ(queue.pace.wait_seconds(1000), 0);
}

TEST(QueuePace, LetsABurstInAtFirstAndSeesWhenTheQueueStandsStill) {
  QueuePace pace(4);
  pace.observe(100, 0, 0);
  pace.observe(101, 50, 4);
  EXPECT_EQ(pace.wait_seconds(50), 0);
  pace.observe(102, 50, 4);
  EXPECT_NEAR(pace.wait_seconds(50), 50, 1e-9);  // no job began for one second
}

TEST(QueuePace, FollowsAQueueThatBecomesFasterOrSlower) {
  Queue queue{.pace = QueuePace(4)};
  queue.run(100, 1, 10);
  queue.run(100, 1, 0.1);
  EXPECT_NEAR(queue.pace.wait_seconds(10), 1, 0.2);
  queue.run(100, 1, 10);
  EXPECT_NEAR(queue.pace.wait_seconds(10), 100, 20);
}

TEST(QueuePace, ForgetsAQueueThatWasEmptyForLong) {
  Queue queue{.pace = QueuePace(4)};
  queue.run(100, 1, 10);
  queue.run(1, 1, 1, 0);
  queue.now += QueuePace::kForgetSeconds + 1;
  queue.pace.observe(queue.now, 0, queue.begun);
  queue.pace.observe(queue.now, 8, queue.begun);
  EXPECT_EQ(queue.pace.wait_seconds(8), 0);
}

}  // namespace
}  // namespace kvick::engine
