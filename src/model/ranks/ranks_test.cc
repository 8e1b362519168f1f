#include <atomic>
#include <chrono>
#include <thread>

#include "model/ranks/test_ranks.h"
#include "model/ranks/test_shared.h"
#include "model/ranks/waiting.h"

namespace kvick::model {
namespace {

class RanksOfThreads : public testing::TestWithParam<unsigned> {};

TEST_P(RanksOfThreads, AddAndTalk) {
  ThreadRanks ranks(GetParam());
  std::vector<std::thread> threads;
  for (unsigned r = 1; r < GetParam(); ++r) threads.emplace_back([&, r] { check_ranks(ranks[r]); });
  check_ranks(ranks[0]);
  for (std::thread& thread : threads) thread.join();
}
INSTANTIATE_TEST_SUITE_P(Some, RanksOfThreads, testing::Values(1, 2, 3, 4));

TEST(Ranks, NumberTheirOwnStores) {
  ThreadRanks ranks(2), others(2);
  const uint32_t first = ranks[0].next_store();
  EXPECT_EQ(others[0].next_store(), first) << "other ranks count for themselves";
  EXPECT_EQ(ranks[0].next_store(), first + 1);
}

TEST(Ranks, AreLostIfOneIsGone) {
  std::atomic<bool> gone = false;
  std::atomic<int> told = 0;
  ThreadRanks ranks(3, {.seconds = 60,
                        .gone = [&] { return std::string(gone ? "rank 2 has ended" : ""); },
                        .on_lost = [&](const std::string&) { ++told; }});
  const auto lost = [&](unsigned rank) {
    ranks[rank].part(4);
    EXPECT_THROW(ranks[rank].sum(), RankLost);
  };
  std::thread other(lost, 1);
  gone = true;
  lost(0);
  other.join();
  EXPECT_EQ(told, 2);
  EXPECT_THROW(ranks[1].hear(), RankLost);
  EXPECT_THROW(ranks[0].answers(), RankLost);
}

TEST(Ranks, AreLostIfOneDoesNotAnswerInTime) {
  ThreadRanks ranks(2, {.seconds = 0.05});
  ranks[0].part(4);
  EXPECT_THROW(ranks[0].sum(), RankLost);
  EXPECT_THROW(ranks[0].answers(), RankLost);
}

// The answer arrives between the check that found nothing and the check of the clock.
TEST(Waiting, TakesWhatHasArrivedWhenItsTimeIsUp) {
  bool arrived = false;
  const auto gone = [&] {
    arrived = true;
    return std::string();
  };
  const Waiting waiting({.seconds = 0.001, .gone = gone, .on_lost = {}});
  EXPECT_NO_THROW(waiting.until([&] { return arrived; }));
}

}  // namespace
}  // namespace kvick::model
