#include <fstream>
#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"
#include "lab/data/prompts.h"

namespace kvick::lab {
namespace {

std::string file_of(const std::string& text) {
  const std::string path = model::test_path("prompts.jsonl");
  std::ofstream(path) << text;
  return path;
}

TEST(Spec, GivesTheSameAnswersWithDraftsAndWithout) {
  ModelBench t;
  t.bench.file = file_of("{\"prompt\": \"a b a b a b a b a b\"}\n\n{\"prompt\": \"x y z\"}\n");
  const auto experiment = find_experiment("spec")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 7U);
  const Findings found = experiment->findings(all);
  for (const Json& row : found.summary["cases"]) {
    EXPECT_EQ(row["different_answers"], 0) << row;
    if (row["spec"] == "none") {
      EXPECT_EQ(row["tokens_per_pass"], 1.0);
    }
    EXPECT_GE(row["tokens_per_pass"], 1.0);
  }
  std::filesystem::remove(t.bench.file);
}

TEST(Spec, GoesThroughTheStoresAndWaysThatItIsGivenWithSeveralPromptsAtOnce) {
  ModelBench t;
  t.bench.file =
      file_of("{\"prompt\": \"a b a b a b\"}\n{\"prompt\": \"x y z\"}\n{\"prompt\": \"q\"}\n");
  t.bench.stores = {"paged:block=8", "bmc:r=8"};
  t.bench.specs = {"lookup:gain=off", "auto"};
  t.bench.batch = 2;
  t.bench.prompts = 3;
  t.bench.answer = 48;
  const auto experiment = find_experiment("spec")->make(t.bench);
  std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(all[0].cell.key, "code paged:block=8 none, 2 at once, 48 tokens");
  EXPECT_EQ(all[5].cell.what["at_once"], 2);
  EXPECT_EQ(all[5].cell.what["tokens"], 48);
  EXPECT_EQ(all[0].runs[0]["answers"].size(), 3U);
  EXPECT_GT(all[1].runs[0]["drafted"], 0);
  EXPECT_EQ(experiment->findings(all).summary["different_answers"], 0);
  all[4].runs[0]["answers"][1] = "other";
  EXPECT_EQ(experiment->findings(all).summary["different_answers"], 1);
  all[4].runs[0]["answers"].erase(2);
  EXPECT_EQ(experiment->findings(all).summary["different_answers"], 2) << "one is missing";
  std::filesystem::remove(t.bench.file);
}

TEST(Spec, ComparesRowsOfATypeWithThoseOfTheSameType) {
  ModelBench t;
  t.bench.file = file_of("{\"prompt\": \"a b a b a b\"}\n{\"prompt\": \"x y z\"}\n");
  t.bench.stores = {"virtual", "paged"};
  t.bench.types = {"f32", "bf16"};
  t.bench.specs = {"lookup:gain=off"};
  const auto experiment = find_experiment("spec")->make(t.bench);
  std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(all[4].cell.key, "code virtual bf16 none");
  EXPECT_EQ(experiment->findings(all).summary["different_answers"], 0);
  // Other element types may give other answers.
  for (size_t i = 0; i < 4; ++i) all[i].runs[0]["answers"][0] = "other";
  EXPECT_EQ(experiment->findings(all).summary["different_answers"], 0);
  all[0].runs[0]["answers"][0] = "first";
  EXPECT_EQ(experiment->findings(all).summary["different_answers"], 3);
  std::filesystem::remove(t.bench.file);
}

TEST(Spec, TakesTheMedianOfTheSpeedupsOfRounds) {
  ModelBench t;
  t.bench.file = file_of("{\"prompt\": \"a\"}\n");
  t.bench.specs = {"auto"};
  const auto experiment = find_experiment("spec")->make(t.bench);
  const auto run = [](double seconds) {
    return Json{{"decode_s", seconds}, {"tokens", 6},   {"tokens_a_pass", 1.0},
                {"drafted", 0},        {"accepted", 0}, {"answers", Json::array({"same"})}};
  };
  std::vector<Measured> all = make_up_all(*experiment, [](const Cell&) { return Json(); });
  ASSERT_EQ(all.size(), 2U);
  all[0].runs = {run(1), run(2), run(3)};
  all[1].runs = {run(2), run(1), run(2)};
  const Json cases = experiment->findings(all).summary["cases"];
  EXPECT_EQ(cases[0]["speedups"], Json::array({0.5, 2.0 / 3})) << "noise";
  EXPECT_EQ(cases[1]["speedups"], Json::array({0.5, 1.5, 2.0}));
  EXPECT_EQ(cases[1]["speedup"], 1.5);
  std::filesystem::remove(t.bench.file);
}

TEST(Spec, SaysWhatItNeeds) {
  ModelBench t;
  EXPECT_NE(find_experiment("spec")->make(t.bench)->cells().error().message.find("--file"),
            std::string::npos);
  t.bench.file = file_of("{\"prompt\": \"a\"}\n");
  t.bench.specs = {"lokup"};
  EXPECT_NE(find_experiment("spec")->make(t.bench)->cells().error().message.find("lokup"),
            std::string::npos);
  t.bench.specs.clear();
  t.bench.file = file_of("{\"prompt\": \"a\"}\n{\"other\": 1}\n");
  EXPECT_NE(find_experiment("spec")->make(t.bench)->cells().error().message.find("line 2"),
            std::string::npos);
  std::filesystem::remove(t.bench.file);
}

TEST(SpecSweep, ComparesGrowthsWithUpfrontAndTheModel) {
  TestBench t;
  const auto experiment = find_experiment("spec-sweep")->make(t.bench);
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell& cell) -> Json {
    const auto growths = cell.what["growths"].get<double>();
    if (growths == 0)
      return {{"copy_bytes_s", 1e9}, {"growth_s", 0.0}, {"attention_bytes_s", 1e10}};
    return {{"all_s", growths + 64 / growths}, {"mean_rows", 20.0}};
  });
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["sweep"][0]["against_upfront"], 1.0);
  // sqrt(4096 / 4 * 0.1) = 10.1
  EXPECT_EQ(found.summary["sweep"][0]["model_growths"], 8U);
  EXPECT_NEAR(found.summary["sweep"][3]["against_upfront"].get<double>(), 16.0 / 65, 1e-12);
}

}  // namespace
}  // namespace kvick::lab
