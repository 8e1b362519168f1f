#include "lab/data/block_cache.h"

#include <gtest/gtest.h>

namespace kvick::lab {
namespace {

std::vector<BlockRequest> requests(std::vector<std::vector<uint64_t>> blocks) {
  std::vector<BlockRequest> all;
  for (auto& one : blocks) all.push_back({.blocks = std::move(one)});
  return all;
}

TEST(BlockCache, WithRoomForAllServesEveryBeginningThatWasThereBefore) {
  const auto all = requests({{1, 2, 3}, {1, 2, 4}, {1, 2, 3, 5}, {2, 3}});
  for (const Replacement one : {Replacement::kOldest, Replacement::kForesees})
    EXPECT_EQ(served_blocks(all, 100, one), 0U + 2 + 3 + 2);
}

TEST(BlockCache, ABlockBehindOneThatIsMissingIsNotServed) {
  EXPECT_EQ(served_blocks(requests({{1, 2}, {3, 2}}), 100, Replacement::kOldest), 0U);
}

TEST(BlockCache, TheOldestGoesAndOfAPromptItsEnd) {
  // Room for three: when 4 and 5 come, 2 is evicted because it is behind 1 in its prompt.
  const auto all = requests({{1, 2}, {4, 5}, {1, 2}});
  EXPECT_EQ(served_blocks(all, 3, Replacement::kOldest), 1U);
  EXPECT_EQ(served_blocks(all, 4, Replacement::kOldest), 2U);
}

TEST(BlockCache, ForesightKeepsWhatIsNeededSoonest) {
  // LRU would evict 1, which is needed next.
  const auto all = requests({{1}, {2}, {3}, {1}, {2}});
  EXPECT_EQ(served_blocks(all, 2, Replacement::kOldest), 0U);
  EXPECT_EQ(served_blocks(all, 2, Replacement::kForesees), 2U);
}

}  // namespace
}  // namespace kvick::lab
