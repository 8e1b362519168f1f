// Tests the tree of cached prefixes: what it finds, what it keeps, and what it evicts first.

#include "kv/prefix/prefix_tree.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <set>

namespace kvick::kv::test {
namespace {

using Tokens = std::vector<Token>;

// A tree over blocks of four tokens, with helpers that use it.
struct Known {
  explicit Known(Eviction eviction = Eviction::kLru, uint32_t window = 0)
      : pool(BlockPool::make({.shape = {.layers = 1,
                                        .kv_heads = 1,
                                        .head_dim = 8,
                                        .max_tokens = 1000,
                                        .window = window}},
                             4, Pages::kSystem)
                 .value()),
        tree(pool, eviction, [] { return seconds; }) {}

  explicit Known(std::shared_ptr<PrefixWatcher> watcher)
      : pool(BlockPool::make(
                 {.shape = {.layers = 1, .kv_heads = 1, .head_dim = 8, .max_tokens = 1000}}, 4,
                 Pages::kSystem)
                 .value()),
        tree(
            pool, Eviction::kLru, [] { return seconds; }, std::move(watcher)) {}

  // Publishes all blocks of a sequence and closes it; the last may be a partial block.
  std::vector<BlockId> add(const Tokens& tokens, const Owner& owner = {}) {
    std::vector<BlockId> blocks;
    PrefixTree::Node* at = nullptr;
    for (size_t i = 0; i < tokens.size(); i += 4) {
      const BlockId block = pool.take().value();
      const auto some = std::span(tokens).subspan(i, std::min<size_t>(4, tokens.size() - i));
      PrefixTree::Node* const node = tree.publish(owner, at, some, block);
      blocks.push_back(node != nullptr ? PrefixTree::block_of(node) : block);
      at = node;
    }
    for (const BlockId block : blocks) tree.drop_user(block);
    return blocks;
  }
  // Returns how many of the tokens are cached, then drops all blocks again.
  uint32_t find(const Tokens& tokens, const Owner& owner = {}) {
    uint32_t rows = 0;
    for (const PrefixTree::Hit& hit : tree.open(tokens, owner)) {
      rows += hit.rows;
      tree.drop_user(hit.block);
    }
    return rows;
  }

  BlockPool pool;
  PrefixTree tree;
  static inline double seconds = 0;  // the time of the tree's clock
};

Tokens count(Token from, uint32_t n) {
  Tokens tokens(n);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

// A watcher that keeps the ids of the blocks in the tree, with the tokens from the root to each
// block's end.
struct Watcher final : PrefixWatcher {
  void stored(const SharedBlock& block) noexcept override {
    Tokens all = block.parent == 0 ? Tokens() : path.at(block.parent);
    all.insert(all.end(), block.tokens.begin(), block.tokens.end());
    path[block.id] = all;
    EXPECT_TRUE(there.insert(block.id).second);
  }
  void removed(uint64_t id) noexcept override { EXPECT_EQ(there.erase(id), 1u); }
  bool has(const Tokens& tokens) const {
    return std::any_of(there.begin(), there.end(),
                       [&](uint64_t id) { return path.at(id) == tokens; });
  }
  std::map<uint64_t, Tokens> path;
  std::set<uint64_t> there;
};

TEST(PrefixTree, TellsItsWatcherWhichWholeBlocksAreThere) {
  const auto watcher = std::make_shared<Watcher>();
  {
    Known known(watcher);
    known.add(count(1, 10));
    EXPECT_EQ(watcher->there.size(), 2u);  // not the partial block
    EXPECT_TRUE(watcher->has(count(1, 4)) && watcher->has(count(1, 8)));
    known.add(count(1, 10));
    EXPECT_EQ(watcher->there.size(), 2u);
    known.add(count(5, 4));  // the same tokens after other tokens are another block
    EXPECT_EQ(watcher->there.size(), 3u);
    known.add(count(100, 4), {.salt = 9});
    EXPECT_EQ(watcher->there.size(), 3u);
    while (known.tree.evict()) continue;
    EXPECT_TRUE(watcher->there.empty());
    known.add(count(1, 8));
    EXPECT_EQ(watcher->there.size(), 2u);
  }
  EXPECT_TRUE(watcher->there.empty());  // gone with the tree
}

TEST(PrefixTree, SaysForHowLongABlockWasNotUsed) {
  Known known;
  Known::seconds = 10;
  known.add(count(0, 8));
  Known::seconds = 12;
  EXPECT_EQ(known.find(count(0, 4)), 4u);
  Known::seconds = 15;
  const auto hits = known.tree.open(count(0, 8), {});
  ASSERT_EQ(hits.size(), 2u);
  EXPECT_EQ(hits[0].idle_seconds, 3);
  EXPECT_EQ(hits[1].idle_seconds, 5);
  for (const PrefixTree::Hit& hit : hits) known.tree.drop_user(hit.block);
  Known::seconds = 0;
}

TEST(PrefixTree, CountsWhatItsNodesTake) {
  Known known;
  EXPECT_EQ(known.tree.bytes(), 0u);
  known.add(count(0, 12));
  const uint64_t three = known.tree.bytes();
  EXPECT_GT(three, 3 * 4 * sizeof(Token));
  EXPECT_TRUE(known.tree.evict());
  EXPECT_EQ(known.tree.bytes(), three / 3 * 2);
}

TEST(PrefixTree, FindsTheLongestKnownBeginning) {
  Known known;
  EXPECT_EQ(known.find(count(0, 20)), 0u);
  known.add(count(0, 12));
  EXPECT_EQ(known.find(count(0, 20)), 12u);
  EXPECT_EQ(known.find(count(0, 12)), 12u);
  EXPECT_EQ(known.find(count(0, 7)), 7u);  // part of the second block
  EXPECT_EQ(known.find({0, 1, 2, 3, 4, 99}), 5u);
  EXPECT_EQ(known.find({1, 2, 3}), 0u);
  EXPECT_EQ(known.find({}), 0u);
}

TEST(PrefixTree, TellsApartWhatBeginsAlike) {
  Known known;
  known.add({1, 2, 3, 4, 5, 6, 7, 8});
  known.add({1, 2, 3, 9, 5, 6, 7, 8});
  known.add({1, 2, 3, 4, 5, 0});
  EXPECT_EQ(known.find({1, 2, 3, 9, 5, 6}), 6u);
  EXPECT_EQ(known.find({1, 2, 3, 4, 5, 0, 0}), 6u);
  EXPECT_EQ(known.find({1, 2, 3, 4, 5, 6, 0}), 6u);
  EXPECT_EQ(known.find({1, 2, 3, 5}), 3u);
}

TEST(PrefixTree, TheSameBlockIsKnownOnce) {
  Known known;
  const auto first = known.add(count(0, 8)), second = known.add(count(0, 8));
  EXPECT_EQ(first, second);
  EXPECT_EQ(known.pool.taken(), 2u);
  known.add(count(0, 10));
  EXPECT_EQ(known.pool.taken(), 3u);
  known.add(count(0, 9));  // shorter than the cached block
  EXPECT_EQ(known.pool.taken(), 3u);
  known.add(count(0, 12));  // replaces the partial block with its first tokens
  EXPECT_EQ(known.pool.taken(), 3u);
  EXPECT_EQ(known.find(count(0, 12)), 12u);
  EXPECT_EQ(known.tree.unused(), 3u);
}

TEST(PrefixTree, TheLeastRecentlyUsedLeafGoesFirst) {
  Known known;
  known.add({1, 1, 1, 1, 2, 2, 2, 2});
  known.add({1, 1, 1, 1, 3, 3, 3, 3});
  known.add({4, 4, 4, 4});
  known.find({1, 1, 1, 1, 2, 2, 2, 2});
  ASSERT_TRUE(known.tree.evict());
  EXPECT_EQ(known.find({1, 1, 1, 1, 3}), 4u);  // only the oldest leaf was evicted
  ASSERT_TRUE(known.tree.evict());
  EXPECT_EQ(known.find({4, 4, 4, 4}), 0u);
  ASSERT_TRUE(known.tree.evict());
  EXPECT_EQ(known.find({1, 1, 1, 1, 2, 2, 2, 2}), 4u);
  ASSERT_TRUE(known.tree.evict());
  EXPECT_FALSE(known.tree.evict());
  EXPECT_EQ(known.pool.taken(), 0u);
  EXPECT_EQ(known.tree.unused(), 0u);
}

TEST(PrefixTree, TheLeastOftenUsedGoesFirstIfAskedTo) {
  Known known(Eviction::kLfu);
  known.add({1, 1, 1, 1});
  known.add({2, 2, 2, 2});
  for (int i = 0; i < 3; ++i) known.find({1, 1, 1, 1});
  known.find({2, 2, 2, 2});  // used more recently, but less often
  ASSERT_TRUE(known.tree.evict());
  EXPECT_EQ(known.find({2, 2, 2, 2}), 0u);
  EXPECT_EQ(known.find({1, 1, 1, 1}), 4u);
}

TEST(PrefixTree, TheBlocksOfTheLowestOwnersGoFirstIfAskedTo) {
  Known known(Eviction::kPriority);
  known.add({1, 1, 1, 1, 5, 5, 5, 5}, {.priority = 3});
  known.add({2, 2, 2, 2}, {.priority = -1});
  known.add({3, 3, 3, 3}, {.priority = -1});
  known.find({2, 2, 2, 2}, {.priority = -2});  // used last; keeps its higher priority
  known.add({4, 4, 4, 4}, {.priority = -1});
  known.find({4, 4, 4, 4}, {.priority = 2});  // raises its rank
  ASSERT_TRUE(known.tree.evict());
  EXPECT_EQ(known.find({3, 3, 3, 3}, {.priority = INT32_MIN}), 0u);
  ASSERT_TRUE(known.tree.evict());
  EXPECT_EQ(known.find({2, 2, 2, 2}, {.priority = INT32_MIN}), 0u);
  ASSERT_TRUE(known.tree.evict());
  EXPECT_EQ(known.find({4, 4, 4, 4}, {.priority = INT32_MIN}), 0u);
  ASSERT_TRUE(known.tree.evict());
  EXPECT_EQ(known.find({1, 1, 1, 1, 5, 5, 5, 5}), 4u);  // its leaf was evicted first
}

TEST(PrefixTree, OwnersOfDifferentSaltsNeverMeet) {
  Known known;
  const auto first = known.add(count(0, 10), {.salt = 7});
  EXPECT_EQ(known.find(count(0, 10)), 0u);
  EXPECT_EQ(known.find(count(0, 10), {.salt = 8}), 0u);
  const auto second = known.add(count(0, 10), {.salt = 8});
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NE(first[i], second[i]);
  EXPECT_EQ(known.pool.taken(), 6u);
  EXPECT_EQ(known.find(count(0, 10), {.salt = 7, .priority = 1}), 10u);
  EXPECT_EQ(known.find(count(0, 10), {.salt = 8}), 10u);
  EXPECT_EQ(known.find(count(0, 10), {.salt = 0}), 0u);
}

TEST(PrefixTree, ASaltWithoutBlocksIsForgotten) {
  Known known;
  EXPECT_EQ(known.find(count(0, 8), {.salt = 3}), 0u);
  EXPECT_EQ(known.tree.roots(), 0u);
  for (uint64_t salt = 0; salt < 20; ++salt) known.add(count(0, 8), {.salt = salt});
  EXPECT_EQ(known.tree.roots(), 20u);
  ASSERT_TRUE(known.tree.evict());  // the second block of the first salt
  EXPECT_EQ(known.tree.roots(), 20u);
  ASSERT_TRUE(known.tree.evict());  // then its first block, the least recently used
  EXPECT_EQ(known.tree.roots(), 19u);
  while (known.tree.evict()) continue;
  EXPECT_EQ(known.tree.roots(), 0u);
  known.add(count(0, 8), {.salt = 3});
  EXPECT_EQ(known.find(count(0, 8), {.salt = 3}), 8u);
}

TEST(PrefixTree, WhatIsUsedStays) {
  Known known;
  known.add(count(0, 12));
  const auto hits = known.tree.open(count(0, 6), {});
  ASSERT_EQ(hits.size(), 2u);
  EXPECT_EQ(known.tree.unused(), 1u);
  EXPECT_TRUE(known.tree.evict());
  EXPECT_FALSE(known.tree.evict());
  for (const auto& hit : hits) known.tree.drop_user(hit.block);
  EXPECT_EQ(known.tree.unused(), 2u);
  EXPECT_EQ(known.find(count(0, 12)), 8u);
}

TEST(PrefixTree, ADeepPathEndsWithoutRecursion) {
  Known known;
  known.add(Tokens(400'000, 7));
  EXPECT_EQ(known.tree.unused(), 100'000u);
  EXPECT_EQ(known.find(Tokens(400'001, 7)), 400'000u);
}

// Three blocks, and a window of four tokens: the first two blocks are dropped while the third is
// used.
TEST(PrefixTree, WithAWindowABlockMayGoBeforeWhatContinuesIt) {
  Known known(Eviction::kLru, 4);
  const Tokens tokens = count(0, 12);
  std::vector<BlockId> blocks;
  PrefixTree::Node* at = nullptr;
  for (uint32_t i = 0; i < 12; i += 4) {
    blocks.push_back(known.pool.take().value());
    at = known.tree.publish({}, at, std::span(tokens).subspan(i, 4), blocks.back());
  }
  known.tree.hold(at);
  known.tree.drop_user(blocks[0]);
  known.tree.drop_user(blocks[1]);
  EXPECT_EQ(known.tree.unused(), 2u);
  ASSERT_TRUE(known.tree.evict());
  ASSERT_TRUE(known.tree.evict());
  EXPECT_FALSE(known.tree.evict());
  EXPECT_EQ(known.pool.taken(), 1u);
  // A prompt of all twelve needs rows 9 to 11; one of eleven would need row 8, one of eight row 5.
  const auto hits = known.tree.open(tokens, {});
  ASSERT_EQ(hits.size(), 3u);
  EXPECT_EQ(hits[1].block, PrefixTree::kNoBlock);
  EXPECT_EQ(hits[2].block, blocks[2]);
  EXPECT_TRUE(known.tree.open(count(0, 8), {}).empty());
  // Once its rows are computed again, the second block is cached again.
  const BlockId again = known.pool.take().value();
  PrefixTree::Node* const second = hits[1].node;
  EXPECT_EQ(known.tree.publish({}, hits[0].node, std::span(tokens).subspan(4, 4), again), second);
  EXPECT_EQ(known.tree.open(count(0, 8), {}).size(), 2u);
  known.tree.drop_user(again);
  known.tree.drop_user(again);
  // The last block is evicted, but its node is held, so that new blocks can continue it.
  known.tree.drop_user(blocks[2]);
  known.tree.drop_user(blocks[2]);
  while (known.tree.evict()) continue;
  EXPECT_EQ(known.pool.taken(), 0u);
  EXPECT_EQ(known.tree.roots(), 1u);
  known.tree.let_go(at);
  EXPECT_EQ(known.tree.roots(), 0u);
  EXPECT_EQ(known.tree.bytes(), 0u);
}

}  // namespace
}  // namespace kvick::kv::test
