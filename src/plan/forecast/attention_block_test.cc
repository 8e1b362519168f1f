#include "plan/forecast/attention_block.h"

#include <gtest/gtest.h>

#include "plan/forecast/test_attention.h"

namespace kvick::plan {
namespace {

double g_now = 0;
double ticking() { return g_now += 1; }

TEST(AttentionBlock, AddsTheTimeOfEachPartAndKeepsTheRows) {
  Machinery m("bmc:r=4", 2);
  AttentionBlock block(m.config, *m.store, m.workspace, ticking);
  const std::vector<kv::SeqId> seqs = {m.store->open({}).seq, m.store->open({}).seq};
  BlockSeconds seconds;
  ASSERT_TRUE(block.step(seqs, 3, seconds).ok());
  ASSERT_TRUE(block.step(seqs, 1, seconds, false).ok());
  // One tick per reading of the clock: one at begin and commit, one per layer for the others.
  EXPECT_EQ(seconds.begin, 2);
  EXPECT_EQ(seconds.write, 4);
  EXPECT_EQ(seconds.attend, 4);
  EXPECT_EQ(seconds.commit, 2);
  EXPECT_EQ(seconds.all(), 12);
  EXPECT_EQ(m.store->length(seqs[0]), 3U);
  EXPECT_EQ(m.store->length(seqs[1]), 3U);
}

TEST(AttentionBlock, SaysWhenThereIsNoRoom) {
  Machinery m("bmc:r=4", 1);
  AttentionBlock block(m.config, *m.store, m.workspace);
  const kv::SeqId seq = m.store->open({}).seq;
  BlockSeconds seconds;
  EXPECT_FALSE(block.step({&seq, 1}, Machinery::kMaxTokens + 1, seconds).ok());
}

}  // namespace
}  // namespace kvick::plan
