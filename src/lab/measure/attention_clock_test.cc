#include "lab/measure/attention_clock.h"

#include <gtest/gtest.h>

#include "model/blocks/linear.h"

namespace kvick::lab {
namespace {

double g_now = 0;

struct CountingStep final : kv::Step {
  int writes = 0, views = 0, commits = 0;
  void write(uint32_t, const float*, const float*) override { ++writes; }
  void view(const kv::Query&, base::Arena&, kernels::View&) override { ++views; }
  void commit(const kv::Kept&) override { ++commits; }
  kv::StepFacets facets() override { return {.per_query = true}; }
};

TEST(AttentionClock, RunsFromALayersFirstViewToTheNextLinearLayer) {
  CountingStep inner;
  AttentionClock clock(inner, [] { return g_now; });
  const model::Linear linear{};
  base::Arena scratch;
  kernels::View view;
  const auto at = [&](double now, const auto& call) {
    g_now = now;
    call();
  };
  const auto see = [&] { clock.see(linear, nullptr, 1); };
  const auto look = [&] { clock.view({}, scratch, view); };
  at(1, see);  // the layer's projections
  at(2, [&] { clock.write(0, nullptr, nullptr); });
  EXPECT_EQ(clock.seconds(), 0);
  at(3, look);
  at(4, look);
  at(8, see);
  EXPECT_EQ(clock.seconds(), 5);
  at(9, see);  // the next layer's linear layers
  EXPECT_EQ(clock.seconds(), 5);
  at(10, look);
  at(12, see);
  EXPECT_EQ(clock.seconds(), 7);
}

TEST(AttentionClock, PassesAllCallsOn) {
  CountingStep inner;
  AttentionClock clock(inner);
  base::Arena scratch;
  kernels::View view;
  clock.write(0, nullptr, nullptr);
  clock.view({}, scratch, view);
  clock.commit({});
  EXPECT_EQ(inner.writes, 1);
  EXPECT_EQ(inner.views, 1);
  EXPECT_EQ(inner.commits, 1);
  EXPECT_TRUE(clock.facets().per_query);
}

}  // namespace
}  // namespace kvick::lab
