#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

TEST(Growth, GoesThroughAllWaysAtEachDepthOfASmallModel) {
  ModelBench t;
  t.bench.tokens = 300;
  t.bench.batch = 2;
  const auto experiment = find_experiment("growth")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 9U * 8);
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.tables[0].rows.size(), 9U);
  ASSERT_EQ(found.charts.size(), 3U);
  for (const Chart& chart : found.charts)
    for (const Series& series : chart.series) EXPECT_EQ(series.points.size(), 8U) << series.name;
}

TEST(Growth, ShowsSecondsOverTheDepthAndTheLongestOfThem) {
  TestBench t;
  t.bench.model_path = "m.gguf";
  const auto experiment = find_experiment("growth")->make(t.bench);
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell& cell) -> Json {
    const auto depth = cell.what["depth"].get<double>();
    return {{"begin_s", 0.25},   {"forward_s", 0.5},       {"commit_s", 0.125},
            {"compile_s", 0.0},  {"step_s", depth / 1000}, {"growing_step_s", depth / 100},
            {"growth_tokens", 5}};
  });
  const Findings found = experiment->findings(all);
  const Json& iterative = found.summary["ways"][0];
  EXPECT_DOUBLE_EQ(iterative["first_s"].get<double>(), 0.128);
  EXPECT_DOUBLE_EQ(iterative["last_s"].get<double>(), 1.92);
  EXPECT_DOUBLE_EQ(iterative["growing_step_s"].get<double>(), 19.2);
  EXPECT_EQ(found.tables[0].rows[0][5], "15.00");
  const Chart& parts = found.charts[2];
  EXPECT_EQ(parts.series[1].name, "iterative, computing");
  EXPECT_DOUBLE_EQ(parts.series[1].points[0].y, 625);
  EXPECT_DOUBLE_EQ(parts.series[1].points[0].x, 128);
}

}  // namespace
}  // namespace kvick::lab
