// Tests keys, values, queries and probabilities that are not finite. The rows shown may be useless,
// but they must exist, and the next sequence must be served as usual.

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>

#include "kv/select/selector.h"
#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();
// Drawn at random, so that every value comes in every place, among ordinary ones.
constexpr float kValues[] = {kNan, 1, kInf, kNan, -kInf, 0.5F, kMost, -kMost, kNan, -kNan, -2};

std::vector<float> values(size_t count, std::mt19937& random) {
  std::vector<float> all(count);
  for (float& x : all) x = kValues[random() % std::size(kValues)];
  return all;
}

class NotFinite : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string why = unavailable(GetParam().spec); !why.empty()) GTEST_SKIP() << why;
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, NotFinite, testing::ValuesIn(cases()), name_of);

// Runs a step of a sequence with such values, and reads its views in all layers and heads.
void add_not_finite(Pair& p, SeqId seq, uint32_t fresh, std::mt19937& random) {
  auto step = p.begin({{seq, fresh}});
  ASSERT_NE(step, nullptr) << p.shortage.what;
  const Shape& shape = p.shape;
  const auto committed = static_cast<uint32_t>(p.twin[seq].size());
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    const size_t row = size_t{shape.kv_heads} * shape.head_dim;
    const auto k = values(fresh * row, random), v = values(fresh * row, random);
    const auto q = values(fresh * row, random), x = values(fresh * row, random);
    std::vector<uint32_t> step_slots(fresh);
    std::iota(step_slots.begin(), step_slots.end(), committed);
    if (step->facets().inputs) step->facets().inputs->inputs(layer, x.data(), step_slots);
    step->write(layer, k.data(), v.data());
    if (!p.shows_rows) {
      std::vector<float> out(q.size());
      step->facets().slots->read(layer, {.group = 1, .q = q.data(), .out = out.data()});
      continue;
    }
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      base::Arena scratch;
      kernels::View view;
      const Query query = {.slot = 0,
                           .layer = layer,
                           .head = head,
                           .q = q.data() + size_t{head} * shape.head_dim,
                           .q_stride = static_cast<uint32_t>(row)};
      step->view(query, scratch, view);
      for (const Row position : positions(view)) ASSERT_LT(position, committed);
      gather(view, shape, false);  // reads all rows of the view
      gather(view, shape, true);
      Observer* const observer = step->facets().observer;
      if (!observer) continue;
      observer->observe(query, view, values(probs_of(*observer, layer, view), random));
    }
  }
  p.commit(*step, Kept::all({p.slots}));
}

TEST_P(NotFinite, ValuesLeadToNoRowThatThereIsNot) {
  const Shape shape =
      shape_of(GetParam(), {.layers = 2, .kv_heads = 3, .head_dim = 6, .max_tokens = 400});
  Pair p(GetParam().spec, shape);
  std::mt19937 random(1);
  const SeqId seq = p.open();
  for (const uint32_t fresh : {40u, 1u, 3u, 1u, 1u, 100u, 1u, 2u, 1u, 1u, 1u, 1u})
    add_not_finite(p, seq, fresh, random);
  EXPECT_EQ(p.store->length(seq), 153u);
  p.close(seq);
  const SeqId other = p.open();
  p.add(other, 30);
  p.add(other, 1);
  EXPECT_EQ(p.store->length(other), 31u);
}

TEST(NotFiniteScores, AreLowerThanAllNumbers) {
  std::mt19937 random(2);
  for (const base::Isa isa : tried_isas())
    for (int round = 0; round < 200; ++round) {
      const auto scores = values(1 + random() % 70, random);
      const auto take = static_cast<uint32_t>(random() % (scores.size() + 1));
      // The definition: by descending score, NaN last; of equal scores the first.
      std::vector<uint32_t> expected(scores.size());
      std::iota(expected.begin(), expected.end(), 0u);
      std::stable_sort(expected.begin(), expected.end(), [&](uint32_t a, uint32_t b) {
        const bool a_is = !std::isnan(scores[a]), b_is = !std::isnan(scores[b]);
        return a_is != b_is ? a_is : a_is && scores[a] > scores[b];
      });
      expected.resize(take);
      std::sort(expected.begin(), expected.end());
      base::Arena scratch;
      const auto taken = highest(kernels::table(isa), scores, take, scratch);
      EXPECT_EQ(std::vector<uint32_t>(taken.begin(), taken.end()), expected);
    }
}

}  // namespace
}  // namespace kvick::kv::test
