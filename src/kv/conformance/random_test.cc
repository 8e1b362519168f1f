// Compares every strategy with a trivial model under random operations. KVICK_TEST_SEED repeats a
// run that failed.

#include <gtest/gtest.h>
#include <set>

#include "kv/testing/player.h"

namespace kvick::kv::test {
namespace {

// Must hold even if only some pairs are tried.
TEST(Cases, MeetEveryStrategyAndEveryType) {
  std::set<std::string> met, met_old;
  std::set<std::pair<kernels::DType, kernels::DType>> types;
  std::set<kernels::DType> old_types;
  for (const Case& test : cases()) {
    (test.aging ? met_old : met).insert(test.spec);
    if (test.aging)
      old_types.insert(test.aging->k_type);
    else
      types.emplace(test.k_type, test.v_type);
  }
  for (const std::string& spec : specs()) {
    EXPECT_TRUE(met.contains(spec)) << spec;
    EXPECT_EQ(met_old.contains(spec), traits_of(spec).holds_old) << spec;
  }
  EXPECT_EQ(types.size(), std::size(kTypes));
  EXPECT_EQ(old_types.size(), std::size(kAgings));
}

constexpr Shape kShape = {.layers = 2, .kv_heads = 2, .head_dim = 10, .max_tokens = 250};

class Random : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Registry, Random, testing::ValuesIn(cases()), name_of);

void play(const Case& test, uint32_t max_tokens) {
  if (const std::string why = unavailable(test.spec); !why.empty()) GTEST_SKIP() << why;
  Shape like = kShape;
  like.max_tokens = max_tokens;
  const Shape shape = shape_of(test, like);
  const uint64_t two =
      cost_of(spec_of(test.spec), setup_for(test.spec, shape), {shape.max_tokens, 2})
          .value()
          .fast_bytes;
  const uint32_t from = seed();
  int shortages = 0;
  // One round in a hundred meets no shortage; then more rounds run until one does.
  constexpr uint32_t kRounds = kSanitized ? 1 : 3, kMostRounds = 20;
  for (uint32_t round = 0; round < kRounds || (shortages == 0 && round < kMostRounds); ++round) {
    SCOPED_TRACE("KVICK_TEST_SEED=" + std::to_string(from + round));
    Player player(test, shape, two, from + round);
    player.play(250);
    shortages += player.shortages();
  }
  EXPECT_GT(shortages, 0);  // else shortages were not tested
}

TEST_P(Random, OperationsAgreeWithTheTrivialModel) { play(GetParam(), kShape.max_tokens); }

// A context so short that most steps pass it, many by several tokens.
class RandomEndless : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Registry, RandomEndless, testing::ValuesIn(endless_cases()), name_of);

TEST_P(RandomEndless, OperationsPastTheContextAgreeWithTheTrivialModel) { play(GetParam(), 17); }

}  // namespace
}  // namespace kvick::kv::test
