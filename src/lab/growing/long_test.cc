#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

TEST(Long, MeasuresOneLayerAndAWholeModel) {
  ModelBench t;
  t.bench.tokens = 128;
  const auto experiment = find_experiment("long")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 2U * 4 + 6 * 4);
  const Findings found = experiment->findings(all);
  ASSERT_EQ(found.tables.size(), 2U);
  EXPECT_EQ(found.tables[0].rows.size(), 2U);
  EXPECT_EQ(found.tables[1].rows.size(), 1U);
  EXPECT_EQ(found.summary["model"][0]["tokens"], 128);
}

TEST(Long, SaysThatAModelIsMissingAndThatAContextIsTooLong) {
  ModelBench t;
  std::vector<std::string> notes;
  t.bench.note = [&](std::string_view note) { notes.emplace_back(note); };
  t.bench.tokens = 2048;  // the model has 512
  EXPECT_EQ(find_experiment("long")->make(t.bench)->cells().value().size(), 2U * 2 * 4);
  t.bench.model_path.clear();
  EXPECT_EQ(find_experiment("long")->make(t.bench)->cells().value().size(), 2U * 2 * 4);
  EXPECT_EQ(notes, (std::vector<std::string>{
                       "long: 1024 tokens are more than the model's 512: left out",
                       "long: 2048 tokens are more than the model's 512: left out",
                       "long: without -m MODEL only the attention of one layer is measured"}));
}

// Iterative takes four times as long as BMC, upfront twice as long, virtual half as long.
TEST(Long, ComparesStrategiesWithinOneContext) {
  TestBench t;
  const auto experiment = find_experiment("long")->make(t.bench);
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell& cell) -> Json {
    const std::map<std::string, double> factors = {
        {"iterative", 4}, {"upfront", 2}, {"bmc", 1}, {"virtual", 0.5}};
    return {{"all_s", factors.at(cell.what["strategy"].get<std::string>()) *
                          cell.what["tokens"].get<double>()}};
  });
  const Findings found = experiment->findings(all);
  ASSERT_EQ(found.summary["attention"].size(), 10U);
  for (const Json& row : found.summary["attention"]) {
    EXPECT_DOUBLE_EQ(row["iterative_over_bmc"].get<double>(), 4);
    EXPECT_DOUBLE_EQ(row["upfront_over_bmc"].get<double>(), 2);
    EXPECT_DOUBLE_EQ(row["iterative_over_virtual"].get<double>(), 8);
  }
  EXPECT_EQ(found.tables.size(), 1U);
  EXPECT_EQ(found.charts[0].series.size(), 2U);
}

}  // namespace
}  // namespace kvick::lab
