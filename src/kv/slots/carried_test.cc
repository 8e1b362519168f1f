// What a model with slots carries from one token to the next.

#include <gtest/gtest.h>

#include "kv/slots/test_bounded.h"

namespace kvick::kv::test {
namespace {

// A sequence of a model that carries three floats per layer.
class Carrying : public testing::Test {
 protected:
  static constexpr uint32_t kCarried = 3;
  using Carried = std::vector<float>;

  // Begins a step and writes all its layers. Row r of step n carries 100 n + 10 layer + r, then
  // that number plus 0.25 and plus 0.5.
  std::unique_ptr<Step> begin(SeqId seq, uint32_t rows, bool carries = true) {
    auto step = store_->begin({{{Slot{seq, rows, {}}}}}).value();
    ++steps_;
    const Floats row(size_t{rows} * kSlotShape.kv_heads * kSlotShape.head_dim, 1);
    for (uint32_t layer = 0; layer < kSlotShape.layers; ++layer) {
      Floats x;
      for (uint32_t r = 0; r < rows; ++r)
        for (const float part : brought(steps_, layer, r)) x.push_back(part);
      if (carries) step->facets().slots->carry(layer, x.data());
      step->write(layer, row.data(), row.data());
    }
    return step;
  }
  static Carried brought(uint32_t step, uint32_t layer, uint32_t row) {
    const auto first = static_cast<float>(100 * step + 10 * layer + row);
    return {first, first + 0.25F, first + 0.5F};
  }
  void expect_carried(SeqId seq, uint32_t step, uint32_t row) {
    const auto begun = store_->begin({{{Slot{seq, 1, {}}}}}).value();
    for (uint32_t layer = 0; layer < kSlotShape.layers; ++layer) {
      const float* x = begun->facets().slots->carried(layer, 0);
      EXPECT_EQ(Carried(x, x + kCarried), step == 0 ? Carried(kCarried) : brought(step, layer, row))
          << layer;
    }
  }

  const MadeSlots made_{kSlotShape, 37, kernels::DType::kF32, kCarried};
  std::unique_ptr<Store> store_ =
      make_store({"bounded", {}}, {.shape = kSlotShape, .slots = &made_.facts}).value();
  uint32_t steps_ = 0;
};

TEST_F(Carrying, WhatTheLastKeptRowBroughtIsToldToTheNextStep) {
  const SeqId seq = store_->open({}).seq;
  expect_carried(seq, 0, 0);
  begin(seq, 5)->commit({.rows = {{0, 2, 3}}});
  expect_carried(seq, 1, 3);
  (void)begin(seq, 4);  // dropped: nothing happened
  expect_carried(seq, 1, 3);
  begin(seq, 4)->commit({.rows = {{}}});
  expect_carried(seq, 1, 3);
  const SeqId fork = store_->fork(seq).value();
  begin(seq, 30)->commit({.rows = {{0, 29}}});
  expect_carried(seq, 4, 29);
  expect_carried(fork, 1, 3);
  begin(fork, 2, false)->commit({.rows = {{0, 1}}});
  expect_carried(fork, 0, 0);
}

TEST_F(Carrying, ItIsCountedAsMemoryOfTheSequence) {
  begin(store_->open({}).seq, 2)->commit({.rows = {{0, 1}}});
  const uint64_t bytes = uint64_t{2} * (2 * 37 * 20 + kCarried) * sizeof(float);
  EXPECT_EQ(store_->usage().used_bytes, bytes);
  const Load load = {.tokens = 100, .sequences = 3};
  const auto cost = cost_of({"bounded", {}}, {.shape = kSlotShape, .slots = &made_.facts}, load);
  EXPECT_EQ(cost.value().fast_bytes, 3 * bytes);
}

TEST_F(Carrying, OfAMemoryThatCarriesNothingIsABug) {
  const MadeSlots bare(kSlotShape, 37);
  const auto store =
      make_store({"bounded", {}}, {.shape = kSlotShape, .slots = &bare.facts}).value();
  const auto step = store->begin({{{Slot{store->open({}).seq, 1, {}}}}}).value();
  const float x = 1;
  EXPECT_THROW(step->facets().slots->carry(0, &x), base::Bug);
  EXPECT_THROW((void)step->facets().slots->carried(0, 0), base::Bug);
}

}  // namespace
}  // namespace kvick::kv::test
