#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

TEST(Allocators, GoesThroughAllWaysAtEachDepthOfASmallModel) {
  ModelBench t;
  t.bench.tokens = 64;
  t.bench.batch = 2;
  const auto experiment = find_experiment("allocators")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 9U * 8);
  const Findings found = experiment->findings(all);
  ASSERT_EQ(found.tables.size(), 1U);
  EXPECT_EQ(found.tables[0].rows.size(), 9U);
  EXPECT_NE(found.tables[0].title.find("sampled: 4 steps at each of 8 depths"), std::string::npos);
  EXPECT_DOUBLE_EQ(found.summary["ways"][0]["faster_than_iterative"].get<double>(), 1);
  EXPECT_DOUBLE_EQ(found.summary["ways"][1]["faster_than_upfront"].get<double>(), 1);
  EXPECT_EQ(found.charts[0].bars.back(), "paged*");
}

// Iterative takes 4 ms per step, upfront 2 ms and all others 1 ms.
TEST(Allocators, AddsUpStepsAndComparesWithIterativeAndUpfront) {
  TestBench t;
  t.bench.model_path = "m.gguf";
  t.bench.tokens = 1000;
  t.bench.batch = 8;
  const auto experiment = find_experiment("allocators")->make(t.bench);
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell& cell) -> Json {
    double forward = 0.001;
    if (cell.what["attention"] == "bmm" && cell.what["strategy"] == "iterative") forward = 0.004;
    if (cell.what["attention"] == "bmm" && cell.what["strategy"] == "upfront") forward = 0.002;
    return {{"begin_s", 0.0},
            {"forward_s", forward},
            {"commit_s", 0.0},
            {"compile_s", 0.0},
            {"growth_tokens", 5}};
  });
  const Findings found = experiment->findings(all);
  const Json& bmc = found.summary["ways"][2];
  EXPECT_EQ(bmc["strategy"], "bmc:r=auto");
  EXPECT_NEAR(bmc["all_s"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(bmc["tok_s"].get<double>(), 8000, 1e-6);
  EXPECT_NEAR(bmc["faster_than_iterative"].get<double>(), 4, 1e-9);
  EXPECT_NEAR(bmc["faster_than_upfront"].get<double>(), 2, 1e-9);
  EXPECT_EQ(found.tables[0].rows[2][8], "4.00");
}

TEST(Allocators, NeedsAModel) {
  TestBench t;
  const auto cells = find_experiment("allocators")->make(t.bench)->cells();
  ASSERT_FALSE(cells.ok());
  EXPECT_EQ(cells.error().message, "allocators needs a model: -m MODEL");
}

}  // namespace
}  // namespace kvick::lab
