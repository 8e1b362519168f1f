// Tests Holdings::map, the pieces of a store's memory, for every strategy of the registry.

#include <gtest/gtest.h>
#include <map>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {.layers = 2, .kv_heads = 3, .head_dim = 6, .max_tokens = 200};

class Map : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string why = unavailable(GetParam().spec); !why.empty()) GTEST_SKIP() << why;
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, Map, testing::ValuesIn(cases()), name_of);

TEST_P(Map, ASequenceWithoutRowsHoldsNothing) {
  Pair p = {GetParam().spec, shape_of(GetParam(), kShape)};
  p.open();
  for (const MapEntry& piece : map_of(*p.store)) {
    EXPECT_EQ(piece.bytes, 0u);
    EXPECT_EQ(piece.tokens, 0u);
  }
}

TEST_P(Map, TheMapShowsWhatEachSequenceHolds) {
  Pair p = {GetParam().spec, shape_of(GetParam(), kShape)};
  const SeqId a = p.open(), b = p.open();
  p.add(a, 150);
  p.add(b, 7);
  std::map<SeqId, uint64_t> tokens;
  uint64_t bytes = 0;
  for (const MapEntry& piece : map_of(*p.store)) {
    bytes += piece.bytes;
    tokens[piece.owner] += piece.used_tokens;
    EXPECT_EQ(piece.users, 1u);
    EXPECT_LE(piece.used_tokens, piece.tokens);
  }
  EXPECT_EQ(bytes, p.store->usage().allocated_bytes);
  // Forgotten rows are not held.
  if (traits_of(GetParam().spec).forgets) {
    EXPECT_LE(tokens[a], kTriedSelection.rows);
    EXPECT_GT(tokens[a] + kTriedDrop, kTriedSelection.rows);
  } else {
    EXPECT_EQ(tokens[a], 150u);
  }
  EXPECT_EQ(tokens[b], 7u);
}

}  // namespace
}  // namespace kvick::kv::test
