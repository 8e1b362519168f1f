#include <algorithm>
#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_deep_bench.h"

namespace kvick::lab {
namespace {

// A bench with a model of more layers than the fast memory has frames for.
struct TierBench : DeepBench {
  TierBench() : DeepBench(6) {
    bench.bandwidths = {"1GB/s"};
    bench.tokens = 1024;
  }
};

TEST(Tier, CountsWhatThePlannerSaysAndLessWhereRowsAreChosen) {
  TierBench t;
  t.bench.select.policies = {"quest:page=4,dense_layers=0"};
  const auto experiment = find_experiment("tier")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 2U * 4 * 2);  // tier and memory, four contexts, all rows and policy
  for (const Measured& one : all) {
    const double counted = one.median("slow_read_bytes");
    const double planned = one.median("planned_slow_read_bytes");
    if (one.cell.what["bandwidth"] == "in memory")
      EXPECT_EQ(counted, 0) << one.cell.key;
    else if (one.cell.what["policy"] == "full")
      EXPECT_EQ(counted, planned) << one.cell.key;
    else
      EXPECT_LE(counted, planned) << one.cell.key;
    EXPECT_GT(one.median("roofline_tok_s"), 0) << one.cell.key;
  }
  const Findings found = experiment->findings(all);
  ASSERT_EQ(found.charts.size(), 2U);
  EXPECT_EQ(found.charts[0].series.size(), 4U);
  EXPECT_EQ(found.charts[0].series[0].points.size(), 4U);
  const Json& longest = found.summary["cases"][7];  // per bandwidth the longest context comes last
  EXPECT_EQ(longest["policy"], "quest dense_layers=0 page=4 25 %");
  EXPECT_GT(longest["less_than_full_percent"].get<double>(), 0);
}

TEST(Tier, ShowsPoliciesThatEarlierCallsMeasured) {
  TierBench t;
  const auto made = [&](const char* policy, const char* bandwidth) {
    t.bench.select.policies = {policy};
    t.bench.bandwidths = {bandwidth};
    return find_experiment("tier")->make(t.bench);
  };
  const auto run = [](const Cell&) -> Json { return {{"tok_s", 2.0}, {"roofline_tok_s", 4.0}}; };
  std::vector<Measured> before = make_up_all(*made("quest:page=4", "1GB/s"), run);
  std::erase_if(before, [](const Measured& one) { return one.cell.what["policy"] == "full"; });
  std::reverse(before.begin(), before.end());  // cells of earlier calls come in any order
  const auto experiment = made("quest:page=8", "1GB/s");
  std::vector<Measured> all = make_up_all(*experiment, run);
  all.insert(all.end(), before.begin(), before.end());
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["cases"].size(), 2U * 4 * 3);
  ASSERT_EQ(found.charts.size(), 2U);  // the bandwidth, and memory
  EXPECT_NE(found.charts[0].name, found.charts[1].name);
  const std::vector<Series>& series = found.charts[0].series;
  ASSERT_EQ(series.size(), 6U);  // all rows and two policies, each with its roofline
  for (const Series& one : series) {
    ASSERT_EQ(one.points.size(), 4U) << one.name;
    EXPECT_LT(one.points[0].x, one.points[3].x) << one.name;
  }
}

TEST(Tier, SaysWhatIsWrong) {
  TierBench t;
  const auto error_of = [&] {
    const auto cells = find_experiment("tier")->make(t.bench)->cells();
    return cells.ok() ? std::string() : cells.error().message;
  };
  t.bench.select.policies = {"h2o"};
  EXPECT_NE(error_of().find("leave --kv-tier out"), std::string::npos) << error_of();
  t.bench.select.policies = {};
  t.bench.bandwidths = {"fast"};
  EXPECT_NE(error_of().find("bandwidth"), std::string::npos) << error_of();
  t.bench.bandwidths = {};
  t.bench.tokens = 20;
  EXPECT_EQ(error_of(), "a context of 20 tokens is too short to time");
}

}  // namespace
}  // namespace kvick::lab
