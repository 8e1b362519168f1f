// Tests of the experiments that replay jobs: serving, preemption, sharing, prefix.

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"
#include "lab/measure/replay.h"

namespace kvick::lab {
namespace {

struct TraceFile {
  explicit TraceFile(const std::string& text) { std::ofstream(path) << text; }
  ~TraceFile() { std::filesystem::remove(path); }
  const std::string path =
      std::filesystem::temp_directory_path() / ("kvick_serving_" + std::to_string(getpid()));
};

engine::SchedulerOptions options_of(const char* spec) {
  engine::SchedulerOptions options;
  options.kv = engine::parse_kv_options(spec, "").value();
  return options;
}

TEST(Replay, AnswersEveryJobAndCountsWhatItTook) {
  ModelBench t;
  engine::Engine& engine = *t.bench.model(engine::Attention::kFused).value();
  const ReplayJob jobs[] = {{.prompt = 20, .answer = 5},
                            {.prompt = 40, .answer = 7, .choices = 3},
                            {.prompt = 10, .answer = 4, .choices = 1, .beams = 2}};
  const auto run = replay(engine, options_of("paged:block=8"), jobs);
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->answer_tokens, 5U + 3 * 7 + 4);
  EXPECT_GT(run->peak_bytes, 0U);
  EXPECT_GT(run->sequences, 1);
  EXPECT_GE(run->waste, 0);
  EXPECT_LT(run->waste, 1);
}

TEST(Replay, AJobThatCannotBeIsAnError) {
  ModelBench t;
  engine::Engine& engine = *t.bench.model(engine::Attention::kFused).value();
  const ReplayJob job = {.prompt = 5000, .answer = 5};
  const auto run = replay(engine, options_of("paged"), {&job, 1});
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.error().message.find("a prompt of 5000 tokens: "), std::string::npos);
}

TEST(Serving, GoesThroughAllStrategiesWithTheSameMemory) {
  const TraceFile trace("t,p,a\nx,400,40\nx,100,60\nx,30,90\nx,70,20\n");
  ModelBench t;
  t.bench.tokens = 128;
  t.bench.file = trace.path;
  const auto experiment = find_experiment("serving")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 3U * 6 - 1);
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["requests"], 4);
  EXPECT_DOUBLE_EQ(found.summary["cells"][0]["against_upfront"].get<double>(), 1);
  // Upfront allocates the whole context for requests that use a fraction of it.
  EXPECT_GT(found.summary["cells"][0]["waste"].get<double>(), 0.3);
}

TEST(Preemption, IsAgainstTheTimeWithAllTheMemory) {
  TestBench t;
  t.bench.model_path = "m.gguf";
  const auto experiment = find_experiment("preemption")->make(t.bench);
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell& cell) -> Json {
    return {{"seconds", 2 / cell.what["share"].get<double>()}};
  });
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["cells"][0]["time_lost"], 0);
  EXPECT_NEAR(found.summary["cells"][5]["time_lost"].get<double>(), 1, 1e-9);
}

TEST(Sharing, TakesLessThanCopies) {
  ModelBench t;
  t.bench.prompt = 60;
  t.bench.answer = 20;
  const auto experiment = find_experiment("sharing")->make(t.bench);
  const auto cells = experiment->cells();
  ASSERT_TRUE(cells.ok());
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell& cell) -> Json {
    return {{"peak_bytes", cell.what["strategy"] == "bmc:r=16" ? 400 : 100}, {"seconds", 1}};
  });
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["prompt"], 60);
  EXPECT_EQ(found.summary["answer"], 20);
  EXPECT_EQ(found.summary["cells"][0]["saved"], 0);
  EXPECT_NEAR(found.summary["cells"][1]["saved"].get<double>(), 0.75, 1e-9);
}

TEST(Prefix, ServesWhatTheIdealOfItsEvictionDoes) {
  std::string lines;
  for (int i = 0; i < 60; ++i)  // an id also stands for all blocks before it
    lines += fmt::format("{{\"hash_ids\": [{}, {}, {}]}}\n", i % 3, 10 + i % 21, 100 + i);
  const TraceFile trace(lines);
  TestBench t;
  t.bench.file = trace.path;
  const auto experiment = find_experiment("prefix")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 7U * 2);
  for (const Measured& one : all) {
    if (one.cell.what["evict"] == "lru") {
      EXPECT_NEAR(one.median("hit_rate"), one.median("oldest"), 0.02) << one.cell.key;
    }
    EXPECT_LE(one.median("oldest"), one.median("foreseen") + 1e-9) << one.cell.key;
  }
  EXPECT_DOUBLE_EQ(all.back().median("hit_rate"), all.back().median("foreseen"));
}

}  // namespace
}  // namespace kvick::lab
