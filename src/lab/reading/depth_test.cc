#include <cstdio>
#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_deep_bench.h"
#include "lab/core/test_text.h"

namespace kvick::lab {
namespace {

struct DepthBench : DeepBench {
  DepthBench() : DeepBench(4) {
    bench.tokens = 600;
    bench.batch = 2;
    bench.select.budgets = {"0.125"};
  }
};

TEST(Depth, ReadsLessWhereRowsAreChosenInMemoryAndOverATier) {
  DepthBench t;
  t.bench.select.policies = {"quest:page=4,dense_layers=0"};
  t.bench.tier = "ram:fast=16MiB";
  const auto experiment = find_experiment("depth")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 4U);  // all rows and the policy, in memory and over the tier
  for (const Measured& one : all) {
    EXPECT_GT(one.median("attend_s"), 0) << one.cell.key;
    EXPECT_GT(one.median("step_s"), 0) << one.cell.key;
  }
  for (const size_t chosen : {size_t{1}, size_t{3}}) {
    EXPECT_GT(all[chosen].median("planned_read_bytes"), 0);
    EXPECT_LT(all[chosen].median("planned_read_bytes"),
              all[chosen - 1].median("planned_read_bytes") / 2);
  }
  EXPECT_EQ(all[1].median("slow_read_bytes"), 0);
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["cases"].size(), 4U);
  EXPECT_EQ(found.summary["cases"][0]["step_times"], 1.0);
  EXPECT_EQ(found.charts[0].bars.size(), 4U);
}

TEST(Depth, ReadsATextInPlaceOfRandomRows) {
  DepthBench t;
  t.bench.select.policies = {"quest:page=4,dense_layers=0"};
  t.bench.tier = "ram:fast=16MiB";
  t.bench.file = write_words(900);
  const auto experiment = find_experiment("depth")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 4U);
  for (const Measured& one : all) {
    EXPECT_GT(one.median("attend_s"), 0) << one.cell.key;
    EXPECT_GT(one.median("step_s"), 0) << one.cell.key;
  }
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["cases"][1]["of_memory"], 1.0);
  EXPECT_EQ(found.summary["cases"][2]["of_memory"],
            all[0].median("step_s") / all[2].median("step_s"));
  EXPECT_EQ(found.summary["cases"][1]["attention_times"],
            all[0].median("attend_s") / all[1].median("attend_s"));
  ASSERT_EQ(found.charts[0].series.size(), 2U);
  EXPECT_EQ(found.charts[0].series[1].points[0].y, 1e3 * all[0].median("attend_s"));

  t.bench.file = write_words(3);
  const auto cells = find_experiment("depth")->make(t.bench)->cells();
  ASSERT_FALSE(cells.ok());
  EXPECT_NE(cells.error().message.find("600 are needed"), std::string::npos)
      << cells.error().message;
  std::remove(t.bench.file.c_str());
}

TEST(Depth, TakesNoOtherTiersFiguresForItsOwn) {
  DepthBench t;
  t.bench.select.policies = {"quest"};
  const auto last_key = [&](const char* tier) {
    t.bench.tier = tier;
    const auto cells = find_experiment("depth")->make(t.bench)->cells();
    return cells.ok() ? cells->back().key : cells.error().message;
  };
  EXPECT_NE(last_key("ram:fast=16MiB"), last_key("ram:fast=32MiB"));
  EXPECT_EQ(last_key("ram:fast=16MiB"), last_key("ram:fast=16MiB"));
}

TEST(Depth, GoesThroughStores) {
  DepthBench t;
  t.bench.select.policies = {"quest"};
  t.bench.stores = {"paged", "virtual"};
  const auto experiment = find_experiment("depth")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].cell.what["tier"], "in memory (paged)");
  EXPECT_EQ(all[3].cell.what["tier"], "in memory (virtual)");
  EXPECT_EQ(experiment->findings(all).summary["cases"][0]["step_times"], 1.0);
  t.bench.stores = {"nothing"};
  const auto cells = find_experiment("depth")->make(t.bench)->cells();
  ASSERT_FALSE(cells.ok());
  EXPECT_NE(cells.error().message.find("nothing"), std::string::npos) << cells.error().message;
}

TEST(Depth, ShowsPoliciesThatEarlierCallsMeasured) {
  DepthBench t;
  const auto made = [&](const char* policy, const char* store) {
    t.bench.select.policies = {policy};
    t.bench.stores = {store};
    return find_experiment("depth")->make(t.bench);
  };
  const auto run = [](const Cell& cell) -> Json {
    return {{"attend_s", 1.0}, {"step_s", cell.what["policy"] == "full" ? 8.0 : 4.0}};
  };
  const std::vector<Measured> same = make_up_all(*made("quest:page=4", "virtual"), run);
  const std::vector<Measured> elsewhere = make_up_all(*made("quest:page=4", "paged"), run);
  const auto experiment = made("quest:page=8", "virtual");
  std::vector<Measured> all = make_up_all(*experiment, run);
  all.push_back(same[1]);
  const Json cases = experiment->findings(all).summary["cases"];
  ASSERT_EQ(cases.size(), 3U);
  EXPECT_EQ(cases[2]["policy"], "quest page=4 12.5 %");
  EXPECT_EQ(cases[2]["step_times"], 2.0);
  EXPECT_EQ(cases[2]["of_memory"], 1.0);
  all.back() = elsewhere[1];
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["cases"][2]["step_times"], 2.0);
  EXPECT_TRUE(found.summary["cases"][2]["of_memory"].is_null()) << "not measured there";
  EXPECT_EQ(found.tables[0].rows[2][6], "-");
}

TEST(Depth, SaysWhatIsWrong) {
  DepthBench t;
  const auto error_of = [&] {
    const auto cells = find_experiment("depth")->make(t.bench)->cells();
    return cells.ok() ? std::string() : cells.error().message;
  };
  t.bench.tokens = 5000;
  EXPECT_NE(error_of().find("the model has 1024"), std::string::npos) << error_of();
  t.bench.tokens = 8;
  EXPECT_NE(error_of().find("too short"), std::string::npos) << error_of();
  t.bench.tokens = 600;
  t.bench.tier = "nowhere";
  EXPECT_NE(error_of().find("nowhere"), std::string::npos) << error_of();
}

}  // namespace
}  // namespace kvick::lab
