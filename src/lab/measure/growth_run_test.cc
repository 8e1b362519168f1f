#include "lab/measure/growth_run.h"

#include <gtest/gtest.h>

#include "lab/core/test_bench.h"
#include "lab/data/shapes.h"

namespace kvick::lab {
namespace {

GrowthRun run_of(const std::string& spec, uint32_t piece) {
  return {.config = config_of(shape_named("s").value(), 1),
          .spec = spec,
          .tokens = 96,
          .batch = 2,
          .piece = piece};
}

TEST(GrowthRun, CountsTheShapesOfAllStepsThoughItTimesAFew) {
  TestBench t;
  for (const auto& [spec, piece, shapes] :
       {std::tuple{"iterative", 96U, 96.0}, {"bmc:r=24", 24U, 4.0}, {"upfront", 12U, 1.0}}) {
    const auto cost = run_growth(t.bench, run_of(spec, piece));
    ASSERT_TRUE(cost.ok()) << cost.error().message;
    EXPECT_NEAR(cost->compiled_shapes, shapes, 1e-9) << spec;
    EXPECT_EQ(cost->timed_steps, 5U * (96 / piece)) << spec;
    EXPECT_EQ(cost->usage.used_bytes, 2 * 96 * 3 * 64 * 2 * 4U) << spec;
  }
}

TEST(GrowthRun, CompilesNothingForOurOwnKernels) {
  TestBench t;
  GrowthRun run = run_of("paged", 16);
  run.attention = engine::Attention::kFused;
  const auto cost = run_growth(t.bench, run);
  ASSERT_TRUE(cost.ok());
  EXPECT_EQ(cost->compiled_shapes, 0);
  EXPECT_GT(cost->seconds.attend, 0);
}

TEST(GrowthRun, SaysWhichSpecIsWrong) {
  TestBench t;
  EXPECT_FALSE(run_growth(t.bench, run_of("bmc:r=0", 1)).ok());
}

}  // namespace
}  // namespace kvick::lab
