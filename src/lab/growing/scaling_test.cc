#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

TEST(Scaling, GoesThroughDepthsAndNumbersOfSequences) {
  ModelBench t;
  t.bench.batch = 4;
  const auto experiment = find_experiment("scaling")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  // Depths: only the whole context of 512 tokens. Sequences: 1, 2 and 4. Heads of 16 elements do
  // not support q8.
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].cell.what["depth"], 512);
  EXPECT_EQ(all[3].cell.what["sequences"], 4);
  for (const Measured& one : all) {
    EXPECT_GT(one.median("least_s"), 0) << one.cell.key;
    EXPECT_LE(one.median("least_s"), one.median("step_s") * 1.0001) << one.cell.key;
  }
  const Findings found = experiment->findings(all);
  ASSERT_EQ(found.charts.size(), 2U);
  EXPECT_EQ(found.charts[0].series.size(), 2U);  // measured and roofline
  EXPECT_EQ(found.charts[1].series[0].points.size(), 3U);
}

TEST(Scaling, SaysHowFarAPointIsOffTheLine) {
  ModelBench t;
  t.bench.batch = 4;
  t.bench.types = {"f16", "bf16"};
  const auto experiment = find_experiment("scaling")->make(t.bench);
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell& cell) {
    const auto batch = cell.what["sequences"].get<double>();
    // Reaches half of the roofline, and a quarter of it from four sequences on.
    return Json{{"least_s", batch}, {"step_s", (batch < 4 ? 2 : 4) * batch}};
  });
  ASSERT_EQ(all.size(), 8U);
  const Findings found = experiment->findings(all);
  EXPECT_DOUBLE_EQ(found.summary["most_off_the_line"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(found.summary["cases"][2]["off_the_line"].get<double>(), 1);
  EXPECT_DOUBLE_EQ(found.summary["cases"][3]["off_the_line"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(found.summary["cases"][3]["token_ms"].get<double>(), 4000);
  EXPECT_EQ(found.charts[1].series.size(), 4U);
}

TEST(Scaling, RefusesWhatTheModelCannot) {
  ModelBench t;
  t.bench.tokens = 1024;
  const auto longer = find_experiment("scaling")->make(t.bench)->cells();
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().message,
            "a context of 1024 tokens was asked for, but the model has 512");
  t.bench.tokens = 100;
  const auto shorter = find_experiment("scaling")->make(t.bench)->cells();
  ASSERT_FALSE(shorter.ok());
  EXPECT_EQ(shorter.error().message, "a context of 100 tokens is too short: 128 are needed");
}

}  // namespace
}  // namespace kvick::lab
