// Tests fresh rows written in pieces (PieceWriter), for every element type and every strategy that
// takes pieces: those that move rows.

#include <gtest/gtest.h>

#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

class Pieces : public testing::TestWithParam<Case> {
 protected:
  Pieces()
      : p(GetParam().spec,
          shape_of(GetParam(), {.layers = 2, .kv_heads = 3, .head_dim = 6, .max_tokens = 100})),
        a(p.open()),
        b(p.open()) {}
  void SetUp() override {
    if (const std::string why = unavailable(GetParam().spec); !why.empty()) GTEST_SKIP() << why;
  }
  static void write(Step& step, const Pair& pair, uint32_t layer, uint32_t first, uint32_t count) {
    const LayerFloats floats(pair.shape, std::span(pair.fresh).subspan(first, count), layer);
    step.facets().pieces->write_piece(layer, first, count, floats.k.data(), floats.v.data());
  }
  Pair p;
  SeqId a, b;
};

INSTANTIATE_TEST_SUITE_P(Registry, Pieces, testing::ValuesIn(moving_cases()), name_of);

TEST_P(Pieces, TogetherAreWhatOneWriteIs) {
  p.add(a, 30);
  p.add(b, 3);
  const SeqId fork = p.fork(a);
  auto step = p.begin({{a, 5}, {b, 1}, {fork, 21}});
  ASSERT_NE(step->facets().pieces, nullptr);
  // All layers of a piece, then all layers of the next piece; pieces span slots.
  for (const auto& [first, count] :
       std::vector<std::pair<uint32_t, uint32_t>>{{0, 2}, {2, 7}, {9, 1}, {10, 17}})
    for (const uint32_t layer : {0U, 1U}) write(*step, p, layer, first, count);
  p.expect_shown(*step);
  p.commit(*step, {.rows = {{0, 1, 2, 3, 4}, {}, {0, 2, 3, 20}}});
  step.reset();
  p.expect_contents();
  p.add(b, 2);
  p.expect_as_if_alone();
}

TEST_P(Pieces, LeaveNothingBehindIfTheStepIsDropped) {
  p.add(a, 7);
  auto step = p.begin({{a, 9}});
  for (const uint32_t layer : {0U, 1U}) write(*step, p, layer, 0, 4);
  step.reset();
  p.expect_contents();
}

TEST_P(Pieces, AreWrittenInOrderAndAllOfThem) {
  auto step = p.begin({{a, 5}, {b, 3}});
  EXPECT_THROW(write(*step, p, 0, 1, 2), base::Bug);
  write(*step, p, 0, 0, 6);
  EXPECT_THROW(write(*step, p, 0, 0, 6), base::Bug);
  EXPECT_THROW(write(*step, p, 0, 5, 3), base::Bug);
  EXPECT_THROW(write_layer(*step, p.shape, p.fresh, 0), base::Bug);
  write_layer(*step, p.shape, p.fresh, 1);
  EXPECT_THROW(write(*step, p, 1, 0, 6), base::Bug);
  const Kept all = Kept::all({p.slots});
  EXPECT_THROW(step->commit(all), base::Bug);
  write(*step, p, 0, 6, 2);
  p.commit(*step, all);
  step.reset();
  p.expect_contents();
}

}  // namespace
}  // namespace kvick::kv::test
