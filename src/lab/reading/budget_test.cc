#include <filesystem>
#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"
#include "lab/core/test_text.h"

namespace kvick::lab {
namespace {

struct BudgetBench : ModelBench {
  BudgetBench() {
    bench.file = write_words(300);
    bench.tokens = 128;
    bench.text_tokens = 256;
    bench.select = {
        .policies = {"quest:dense_layers=0,page=4,least=8", "h2o:least=8", "streaming:least=8"},
        .budgets = {"0.5", "0.25"}};
  }
  ~BudgetBench() { std::filesystem::remove(bench.file); }
};

TEST(Budget, CountsTheBytesThatThePlannerSaysAndComparesWithAllRows) {
  BudgetBench t;
  const auto experiment = find_experiment("budget")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 6U);
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["bytes_equal"], true);
  EXPECT_GT(found.summary["full_perplexity"].get<double>(), 1);
  for (const Measured& one : all) {
    EXPECT_GT(one.median("kl_mean"), 0) << one.cell.key;
    EXPECT_EQ(one.median("predicted"), 2 * 127) << one.cell.key;
  }
  // At these budgets h2o reads half and a quarter of the rows, and the token's own row.
  const Json& half = found.summary["cases"][2];
  EXPECT_EQ(half["policy"], "h2o least=8");
  EXPECT_NEAR(half["read_of_full_percent"].get<double>(), 50, 1);
  ASSERT_EQ(found.charts.size(), 3U);
  ASSERT_EQ(found.charts[0].series.size(), 3U);
  EXPECT_EQ(found.charts[0].series[0].points[0].x, 25);  // sorted by x
}

TEST(Budget, ShowsPoliciesThatEarlierCallsMeasured) {
  BudgetBench t;
  const auto made = [&](std::vector<std::string> policies, std::vector<std::string> budgets) {
    t.bench.select = {.policies = std::move(policies), .budgets = std::move(budgets)};
    return find_experiment("budget")->make(t.bench);
  };
  const auto run = [](const Cell&) -> Json {
    return {{"perplexity", 3.0}, {"full_perplexity", 2.0}, {"full_read_bytes", 4}};
  };
  const std::vector<Measured> before = make_up_all(*made({"h2o", "streaming"}, {"0.25"}), run);
  const auto experiment = made({"h2o", "quest"}, {"0.5"});
  std::vector<Measured> all = make_up_all(*experiment, run);
  all.insert(all.end(), before.begin(), before.end());
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["cases"].size(), 4U);
  const std::vector<Series>& series = found.charts[0].series;
  ASSERT_EQ(series.size(), 3U);
  EXPECT_EQ(series[0].name, "h2o");
  ASSERT_EQ(series[0].points.size(), 2U);
  EXPECT_EQ(series[0].points[0].x, 25);
  EXPECT_EQ(series[0].points[1].x, 50);
  EXPECT_EQ(series[2].name, "streaming");
}

TEST(Budget, PredictionsOfAPromptDoNotCount) {
  BudgetBench t;
  t.bench.prompt = 64;
  t.bench.select.policies = {"h2o"};
  t.bench.select.budgets = {"0.25"};
  const auto experiment = find_experiment("budget")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].median("predicted"), 2 * 63);
}

TEST(Budget, SaysWhatIsWrong) {
  const auto error_of = [](const Bench& bench) {
    const auto cells = find_experiment("budget")->make(bench)->cells();
    return cells.ok() ? std::string() : cells.error().message;
  };
  TestBench none;
  EXPECT_EQ(error_of(none.bench), "budget needs a model: -m MODEL");
  BudgetBench t;
  t.bench.tokens = 1024;
  EXPECT_EQ(error_of(t.bench), "a window of 1024 tokens was asked for, but the model has 512");
  t.bench.tokens = 300;
  EXPECT_EQ(error_of(t.bench),
            "256 tokens of text do not fill a window of 300: give more, or a smaller --ctx");
  t.bench.tokens = 128;
  t.bench.prompt = 127;
  EXPECT_EQ(error_of(t.bench),
            "a prompt of 127 tokens leaves nothing to predict in a window of 128");
  t.bench.prompt = 0;
  t.bench.select.budgets = {"1.5"};
  EXPECT_NE(error_of(t.bench).find("budget"), std::string::npos);
  t.bench.select = {.predictor = "/nowhere.kvp"};
  EXPECT_NE(error_of(t.bench).find("/nowhere.kvp"), std::string::npos);
}

}  // namespace
}  // namespace kvick::lab
