#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

TEST(UseCases, MeasuresThoseThatFitTheModelAndNamesTheOthers) {
  ModelBench t;
  std::vector<std::string> notes;
  t.bench.note = [&](std::string_view note) { notes.emplace_back(note); };
  t.bench.batch = 2;
  const auto experiment = find_experiment("usecases")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 4U + 4 * 4);  // prompts, and answers at four depths
  EXPECT_EQ(notes[0], "usecases: question needs 2048 tokens, the context has 512: left out");
  EXPECT_EQ(notes.size(), 3U);
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.tables[0].rows.size(), 2U);  // one use case and the mean
  EXPECT_EQ(found.summary["uses"][0]["use"], "chat");
}

// With blocks a prompt takes 1 s per sequence and a token 10 ms; all other ways take half of both.
TEST(UseCases, AddsPromptsAndAnswersAndComparesWithBlocks) {
  ModelBench t;
  t.bench.batch = 2;
  const auto experiment = find_experiment("usecases")->make(t.bench);
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell& cell) -> Json {
    const double factor = cell.what["strategy"] == "paged" ? 1 : 0.5;
    if (cell.what.contains("prompt")) return {{"prompt_s", factor}};
    return {{"begin_s", 0.0}, {"forward_s", 0.01 * factor}, {"commit_s", 0.0}, {"compile_s", 0.0}};
  });
  const Findings found = experiment->findings(all);
  const Json& chat = found.summary["uses"][0];
  EXPECT_NEAR(chat["paged_tok_s"].get<double>(), 2 * 128 / (2 * 1 + 128 * 0.01), 1e-9);
  EXPECT_NEAR(chat["iterative"].get<double>(), 2, 1e-9);
  EXPECT_NEAR(found.summary["geometric_mean"]["bmc:r=auto"].get<double>(), 2, 1e-9);
}

TEST(UseCases, NeedsAModelOfSomeContext) {
  TestBench t;
  const auto cells = find_experiment("usecases")->make(t.bench)->cells();
  ASSERT_FALSE(cells.ok());
  EXPECT_EQ(cells.error().message, "usecases needs a model: -m MODEL");
}

}  // namespace
}  // namespace kvick::lab
