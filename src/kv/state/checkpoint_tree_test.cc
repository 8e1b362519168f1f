#include "kv/state/checkpoint_tree.h"

#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>

namespace kvick::kv {
namespace {

using Tokens = std::vector<Token>;

double fake_seconds = 0;
double fake_clock() { return fake_seconds; }

SharedState state_of(uint8_t value) {
  SharedState state(new std::byte[1]);
  state[0] = std::byte{value};
  return state;
}

Tokens counted(uint32_t count, Token first = 1) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(CheckpointTree, FindsWhatAMapOfAllTokensFinds) {
  std::mt19937 random(3);
  CheckpointTree tree;
  std::map<std::pair<uint64_t, Tokens>, uint8_t> twin;
  const auto text = [&] {
    Tokens tokens(1 + random() % 12);
    for (Token& token : tokens) token = static_cast<Token>(random() % 2);
    return tokens;
  };
  for (int turn = 0; turn < 3000; ++turn) {
    const uint64_t salt = random() % 2;
    const Tokens tokens = text();
    if (random() % 3 == 0) {
      const auto value = static_cast<uint8_t>(random());
      tree.keep(tokens, salt, state_of(value));
      twin.try_emplace({salt, tokens}, value);
    }
    const auto found = tree.find(tokens, salt);
    size_t most = 0, seen = 0;
    for (const auto& [key, value] : twin) {
      if (key.first != salt) continue;
      const auto differ =
          std::mismatch(key.second.begin(), key.second.end(), tokens.begin(), tokens.end());
      seen = std::max(seen, static_cast<size_t>(differ.first - key.second.begin()));
      if (differ.first == key.second.end()) most = std::max(most, key.second.size());
    }
    ASSERT_EQ(found.tokens, most);
    ASSERT_EQ(found.seen, seen);
    ASSERT_EQ(found.state != nullptr, most > 0);
    if (most == 0) continue;
    const Tokens path(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(most));
    ASSERT_EQ(found.state[0], std::byte{twin.at({salt, path})});
  }
  EXPECT_EQ(tree.size(), twin.size());
  while (tree.evict()) continue;
  EXPECT_EQ(tree.bytes(), 0u) << "nodes are left of nothing";
}

TEST(CheckpointTree, GivesBackWhatSavesTheFewestTokensAndNothingInUse) {
  CheckpointTree tree;
  const Tokens text = counted(100);
  const auto kept = [&](size_t tokens) {
    return tree.find(std::span(text).first(tokens), 0).tokens == tokens;
  };
  tree.keep(std::span(text).first(40), 0, state_of(1));
  tree.keep(std::span(text).first(45), 0, state_of(2));  // saves five
  tree.keep(std::span(text).first(90), 0, state_of(3));
  const SharedState used = tree.find(std::span(text).first(90), 0).state;
  EXPECT_EQ(tree.unused(), 2u);
  EXPECT_TRUE(tree.evict());
  EXPECT_FALSE(kept(45));
  EXPECT_TRUE(tree.evict());
  EXPECT_FALSE(kept(40));
  EXPECT_FALSE(tree.evict());
  EXPECT_TRUE(kept(90));
}

TEST(CheckpointTree, WhatIsUsedOftenOutlivesWhatIsNew) {
  CheckpointTree tree;
  tree.keep(counted(30), 0, state_of(0));
  for (Token other = 1; other < 200; ++other) {
    if (other % 4 == 0) tree.find(counted(30), 0);
    tree.keep(counted(30, 1000 * other), 0, state_of(1));
    if (other > 8) {
      EXPECT_TRUE(tree.evict());
    }
  }
  EXPECT_EQ(tree.find(counted(30), 0).tokens, 30u);
}

TEST(CheckpointTree, ForgetsWhatWasUsedOftenLongAgo) {
  CheckpointTree tree;
  tree.keep(counted(30), 0, state_of(0));
  for (int i = 0; i < 20; ++i) tree.find(counted(30), 0);
  bool gone = false;
  for (Token other = 1; other < 400 && !gone; ++other) {
    tree.keep(counted(30, 1000 * other), 0, state_of(1));
    tree.find(counted(30, 1000 * other), 0);
    if (other > 4) {
      EXPECT_TRUE(tree.evict());
    }
    bool there = false;
    tree.for_each([&](const SharedState& state, uint32_t) { there |= state[0] == std::byte{0}; });
    gone = !there;
  }
  EXPECT_TRUE(gone);
}

TEST(CheckpointTree, BoundsHowManyASequenceLeaves) {
  CheckpointTree tree;
  const Tokens text = counted(4000);
  for (size_t end = 10; end <= text.size(); end += 10)
    tree.keep(std::span(text).first(end), 0, state_of(0));
  EXPECT_EQ(tree.size(), CheckpointTree::kMostOfSequence);
  EXPECT_EQ(tree.find(text, 0).tokens, text.size()) << "the newest stays";
}

TEST(CheckpointTree, SaysForHowLongTheOldestWasNotUsed) {
  CheckpointTree tree(fake_clock);
  EXPECT_LT(tree.idle_seconds(), 0);
  fake_seconds = 10;
  tree.keep(counted(20), 0, state_of(0));
  fake_seconds = 15;
  tree.keep(counted(50), 0, state_of(1));
  fake_seconds = 18;
  EXPECT_EQ(tree.idle_seconds(), 3) << "what comes before a checkpoint is used with it";
  tree.keep(counted(20, 500), 0, state_of(1));
  fake_seconds = 20;
  tree.find(counted(60), 0);
  EXPECT_EQ(tree.idle_seconds(), 2);
}

}  // namespace
}  // namespace kvick::kv
