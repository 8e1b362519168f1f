#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"
#include "lab/core/test_text.h"
#include "lab/reading/bounded_findings.h"

namespace kvick::lab {
namespace {

// Random models: small.gguf, which keeps rows, and two with 24 and 48 slots.
struct BoundedBench : TestBench {
  BoundedBench() {
    add("rows.gguf", tools::Arch::kLlama, 0);
    add("trained/model.gguf", tools::Arch::kBct, 24);
    add("large.gguf", tools::Arch::kBct, 48);
    bench.model_path = "rows.gguf";
    bench.model = [this](engine::Attention) { return open(bench.model_path); };
    bench.open = [this](const std::string& path) { return open(path); };
    bench.bounded.models = {"trained/model.gguf", "large.gguf"};
    bench.file = write_words(400);
  }
  ~BoundedBench() { std::filesystem::remove(bench.file); }

  void add(const std::string& path, tools::Arch arch, uint32_t slots, uint32_t vocab = 512) {
    tools::Spec spec = model::tiny_spec(arch);
    if (slots != 0) spec.slots = slots;
    spec.vocab = vocab;
    engines[path] = engine::engine_of(spec);
  }
  base::Result<engine::Engine*> open(const std::string& path) {
    if (engines[path] == nullptr) return base::fail("cannot open {}", path);
    return engines[path].get();
  }
  std::string error() {
    const auto cells = find_experiment("bounded")->make(bench)->cells();
    return cells.ok() ? std::string() : cells.error().message;
  }
  std::map<std::string, std::unique_ptr<engine::Engine>> engines;
};

TEST(Bounded, AMemoryHoldsTheSameBytesAtEveryDepthAndRowsDoNot) {
  BoundedBench t;
  t.bench.bounded.trained = 128;
  const auto experiment = find_experiment("bounded")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 3U * (5 + 6));
  const Findings found = experiment->findings(all);
  const Json& decode = found.summary["decode"];
  ASSERT_EQ(decode.size(), 3U);
  EXPECT_EQ(decode[0]["model"], "rows");
  EXPECT_GT(decode[0]["last_bytes"], decode[0]["first_bytes"]);
  EXPECT_GT(decode[0]["bytes_per_1024_tokens"], 0);
  EXPECT_EQ(decode[1]["model"], "trained");  // named after its folder
  for (const size_t memory : {size_t{1}, size_t{2}}) {
    // 2 layers, 2 KV heads, slots of 32 floats
    EXPECT_EQ(decode[memory]["last_bytes"], decode[memory]["slots"].get<double>() * 2 * 2 * 32 * 4);
    EXPECT_EQ(decode[memory]["first_bytes"], decode[memory]["last_bytes"]);
    EXPECT_EQ(decode[memory]["bytes_per_1024_tokens"], 0);
    EXPECT_GT(decode[memory]["last_step_us"], 0);
  }
  EXPECT_EQ(decode[2]["first_depth"], 16);
  EXPECT_EQ(decode[2]["last_depth"], 512);
  ASSERT_EQ(found.charts.size(), 3U);
  EXPECT_EQ(found.charts[0].series[2].points.size(), 5U);
  EXPECT_EQ(found.charts[1].series[2].points.size(), 6U);
}

TEST(Bounded, PredictsTheSameTextAtEveryContextAndMarksThoseLongerThanTrained) {
  BoundedBench t;
  t.bench.bounded.models = {"large.gguf"};
  t.bench.bounded.trained = 128;
  t.bench.text_tokens = 600;
  const auto experiment = find_experiment("bounded")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  const Findings found = experiment->findings(all);
  const Json& cases = found.summary["perplexity"];
  ASSERT_EQ(cases.size(), 2U * 5);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto context = cases[i]["context"].get<uint32_t>();
    EXPECT_EQ(context, 32U << (i / 2));
    EXPECT_EQ(cases[i]["longer_than_trained"], context > 128);
    EXPECT_GT(cases[i]["perplexity"], 1);
    EXPECT_EQ(all[i].median("predicted"), 512 - 512 / context);
    if (i % 2 == 0) {
      EXPECT_EQ(cases[i]["over_rows_percent"], 0.0);
    }
  }
}

// Made-up runs: with rows a token takes 1 us more per 1024 tokens before it, with slots it does
// not. Noise differs between depths, and one run was disturbed.
TEST(Bounded, TellsASlopeFromNoise) {
  std::vector<Measured> all;
  for (const bool rows : {true, false})
    for (const uint32_t depth : {2048U, 4096U, 8192U, 16384U}) {
      Measured one = {.cell = {.key = "",
                               .what = {{"part", kDecodePart},
                                        {"model", rows ? "lm" : "bct"},
                                        {"slots", rows ? 0 : 64},
                                        {"depth", depth}}},
                      .runs = {}};
      const double of_depth = depth == 4096 || depth == 8192 ? 1e-7 : -1e-7;
      for (const double noise : {-1e-7, depth == 2048 ? 1e-2 : 1e-7, 0.0})
        one.runs.push_back({{"step_s", 5e-5 + of_depth + noise + (rows ? 1e-6 * depth / 1024 : 0)},
                            {"allocated_bytes", rows ? 512 * depth : 4096}});
      all.push_back(std::move(one));
    }
  Findings findings;
  add_decode(all, findings);
  const Json& rows = findings.summary["decode"][0];
  const Json& memory = findings.summary["decode"][1];
  EXPECT_NEAR(rows["slope_us_per_1024_tokens"].get<double>(), 1, 0.02);
  EXPECT_EQ(rows["slope_within_noise"], false);
  EXPECT_NEAR(rows["bytes_per_1024_tokens"].get<double>(), 512 * 1024, 1e-3);
  EXPECT_NEAR(memory["slope_us_per_1024_tokens"].get<double>(), 0, 0.02);
  EXPECT_EQ(memory["slope_within_noise"], true);
}

TEST(Bounded, DrawsRunsOfMadeUpSequencesWithoutAnyModel) {
  TestBench t;
  const std::string path = model::test_path("summary.json");
  std::ofstream(path) << R"({"arch": "bct", "task": "copy", "update": "step", "slots": 16, )"
                      << R"("pairs": 4, "accuracy": 0.5})";
  t.bench.bounded.recall = {path};
  const auto experiment = find_experiment("bounded")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  EXPECT_TRUE(all.empty());
  const Findings found = experiment->findings(all);
  EXPECT_EQ(found.summary["recall"][0]["slots"], 16);
  EXPECT_EQ(found.charts[0].name, "bounded-recall-copy");
  std::filesystem::remove(path);
}

TEST(Bounded, SaysWhatIsWrong) {
  TestBench none;
  const auto cells = find_experiment("bounded")->make(none.bench)->cells();
  EXPECT_NE(cells.error().message.find("--bounded FILE"), std::string::npos);
  BoundedBench t;
  t.bench.tokens = 1024;
  EXPECT_NE(t.error().find("1024 tokens was asked for, but rows has 512"), std::string::npos);
  t.bench.tokens = 256;
  EXPECT_EQ(t.error(), "a context of 256 tokens is too short to time: 512 are the least");
  t.bench.tokens = 0;
  t.bench.text_tokens = 300;
  EXPECT_NE(t.error().find("do not fill a context of 512"), std::string::npos) << t.error();
  t.bench.text_tokens = 0;
  t.bench.bounded.models = {"large.gguf", "large.gguf"};
  EXPECT_EQ(t.error(), "two models are called large: rename a file");
  t.bench.bounded.models = {"rows.gguf"};
  EXPECT_NE(t.error().find("rows keeps rows"), std::string::npos) << t.error();
  t.bench.bounded.models = {"none.gguf"};
  EXPECT_EQ(t.error(), "cannot open none.gguf");
  t.add("other.gguf", tools::Arch::kBct, 24, 480);
  t.bench.bounded.models = {"other.gguf"};
  EXPECT_NE(t.error().find("have different vocabularies"), std::string::npos) << t.error();
  t.bench.bounded.models = {"large.gguf"};
  t.bench.model_path = "large.gguf";
  EXPECT_NE(t.error().find("give it with --bounded"), std::string::npos) << t.error();
}

}  // namespace
}  // namespace kvick::lab
