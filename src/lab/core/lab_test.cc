#include "lab/core/lab.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>

#include "lab/core/report.h"
#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

namespace fs = std::filesystem;

// An experiment of two cells. A run's number counts all runs before it in the test.
int g_runs = 0;
bool g_fails_at_three = false;
class Counting final : public Experiment {
 public:
  base::Result<std::vector<Cell>> cells() override {
    return std::vector<Cell>{{"a", {{"x", 1}}}, {"b", {{"x", 2}}}};
  }
  base::Result<Json> measure(const Cell&) override {
    if (g_fails_at_three && g_runs == 3) return base::fail("the third run fails");
    return Json{{"run", g_runs++}};
  }
  Findings findings(std::span<const Measured> all) override {
    Findings found;
    found.summary = {{"a", all[0].median("run")}, {"b", all[1].median("run")}};
    found.tables.push_back({"Runs", {"cell", "run"}, {{"a", "1"}, {"b", "22"}}});
    found.charts.push_back({.name = "counting-chart", .title = "t", .series = {}, .bars = {}});
    return found;
  }
};

constexpr ExperimentRow kCounting = {
    "counting", "counts its runs", 2,
    [](const Bench&) -> std::unique_ptr<Experiment> { return std::make_unique<Counting>(); }};

// An experiment with a cell per policy, which lists the cells that it is shown.
class Listing final : public Experiment {
 public:
  explicit Listing(const Bench& bench) : policies_(bench.select.policies) {}
  base::Result<std::vector<Cell>> cells() override {
    std::vector<Cell> cells;
    for (const std::string& policy : policies_) cells.push_back({policy, {{"policy", policy}}});
    return cells;
  }
  base::Result<Json> measure(const Cell&) override { return Json{{"run", g_runs++}}; }
  Findings findings(std::span<const Measured> all) override {
    Findings found;
    found.summary = Json::array();
    for (const Measured& one : all) found.summary.push_back(one.cell.key);
    return found;
  }

 private:
  std::vector<std::string> policies_;
};

std::unique_ptr<Experiment> make_listing(const Bench& bench) {
  return std::make_unique<Listing>(bench);
}
constexpr ExperimentRow kListing = {"listing", "lists its cells", 1, make_listing, {}, "", true};
constexpr ExperimentRow kListingOwn = {"listing", "lists its cells", 1, make_listing};

class Lab : public testing::Test {
 protected:
  void SetUp() override {
    g_runs = 0;
    g_fails_at_three = false;
    options.folder = fs::path(testing::TempDir()) / fmt::format("kvick_lab_{}", getpid());
    fs::remove_all(options.folder);
    options.machine = {{"cpu", "one"}};
    options.command = "kvick lab counting";
  }
  void TearDown() override { fs::remove_all(options.folder); }

  base::Result<RunResult> run() { return run_experiment(kCounting, t.bench, options); }
  std::string read(const char* name) const {
    std::ifstream in(options.folder / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TestBench t;
  RunOptions options;
};

TEST_F(Lab, RunsAllCellsInEachRoundAndWritesWhatTheyShow) {
  const auto result = run();
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->measured, 4U);
  const Json report = Json::parse(read("counting.json"));
  EXPECT_EQ(report["cells"][0]["runs"], Json::parse(R"([{"run": 0}, {"run": 2}])"));
  EXPECT_EQ(report["cells"][1]["runs"], Json::parse(R"([{"run": 1}, {"run": 3}])"));
  EXPECT_EQ(report["summary"], Json::parse(R"({"a": 1.0, "b": 2.0})"));
  EXPECT_EQ(report["tables"], Json::parse(R"([{"title": "Runs", "columns": ["cell", "run"],
                                               "rows": [["a", "1"], ["b", "22"]]}])"));
  EXPECT_EQ(report["charts"][0]["name"], "counting-chart");
  EXPECT_EQ(result->file, options.folder / "counting.json");
}

TEST_F(Lab, GoesOnWhereItWasBroken) {
  g_fails_at_three = true;
  const auto broken = run();
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().message, "the third run fails");
  g_fails_at_three = false;
  const auto result = run();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->reused, 3U);
  EXPECT_EQ(result->measured, 1U);
  EXPECT_EQ(run()->measured, 0U);
  options.rounds = 3;
  EXPECT_EQ(run()->measured, 2U);
}

TEST_F(Lab, KeepsWhatLaterCellsAndOtherOptionsHave) {
  ASSERT_TRUE(run().ok());
  Json report = Json::parse(read("counting.json"));
  report["cells"][0]["runs"].erase(1);  // cell a: its second run has to be measured again
  const Json other = {
      {"key", "c"}, {"inputs", "others"}, {"what", {{"x", 3}}}, {"runs", {{{"run", 7}}}}};
  report["cells"].push_back(other);
  std::ofstream(options.folder / "counting.json") << report;
  g_runs = 3;
  g_fails_at_three = true;
  ASSERT_FALSE(run().ok());
  EXPECT_EQ(Json::parse(read("counting.json"))["cells"], report["cells"]);
  g_fails_at_three = false;
  const auto result = run();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->measured, 1U);
  EXPECT_EQ(result->reused, 3U);
  const Json cells = Json::parse(read("counting.json"))["cells"];
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0]["runs"], Json::parse(R"([{"run": 0}, {"run": 3}])"));
  EXPECT_EQ(cells[1]["runs"], Json::parse(R"([{"run": 1}, {"run": 3}])"));
  EXPECT_EQ(cells[2], other);
}

TEST_F(Lab, MeasuresAnewWhenAskedToOrOnAnotherMachine) {
  ASSERT_TRUE(run().ok());
  std::vector<std::string> notes;
  t.bench.note = [&](std::string_view note) { notes.emplace_back(note); };
  options.again = true;
  EXPECT_EQ(run()->measured, 4U);
  EXPECT_TRUE(notes.empty());
  options.again = false;
  options.machine = {{"cpu", "other"}};
  EXPECT_EQ(run()->measured, 4U);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("counting.json has results of another machine"), std::string::npos);
}

TEST_F(Lab, MeasuringAgainReplacesOnlyTheCellsOfTheCall) {
  ASSERT_TRUE(run().ok());
  Json report = Json::parse(read("counting.json"));
  const Json other = {
      {"key", "c"}, {"inputs", "others"}, {"what", {{"x", 3}}}, {"runs", {{{"run", 7}}}}};
  report["cells"].push_back(other);
  std::ofstream(options.folder / "counting.json") << report;
  options.again = true;
  g_runs = 2;
  g_fails_at_three = true;
  ASSERT_FALSE(run().ok());
  Json cells = Json::parse(read("counting.json"))["cells"];
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0]["runs"], Json::parse(R"([{"run": 2}])"));
  EXPECT_EQ(cells[1], report["cells"][1]) << "not measured again yet";
  EXPECT_EQ(cells[2], other);
  g_fails_at_three = false;
  EXPECT_EQ(run()->measured, 4U);
  cells = Json::parse(read("counting.json"))["cells"];
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0]["runs"], Json::parse(R"([{"run": 3}, {"run": 5}])"));
  EXPECT_EQ(cells[1]["runs"], Json::parse(R"([{"run": 4}, {"run": 6}])"));
  EXPECT_EQ(cells[2], other);
}

TEST_F(Lab, MeasuresAnewWhatAnotherModelOrFileOrNumberGave) {
  const fs::path path = fs::path(testing::TempDir()) / fmt::format("kvick_input_{}", getpid());
  const auto write = [&](const char* text) { std::ofstream(path) << text; };
  ASSERT_TRUE(run().ok());
  std::string* const names[] = {&t.bench.model_path,       &t.bench.file,
                                &t.bench.select.predictor, &t.bench.select.components,
                                &t.bench.select.scores,    &t.bench.select.heads};
  for (std::string* const name : names) {
    *name = path.string();
    write("one");
    EXPECT_EQ(run()->measured, 4U);
    write("two");
    EXPECT_EQ(run()->measured, 4U);
    EXPECT_EQ(run()->measured, 0U);
    write("one");
    EXPECT_EQ(run()->measured, 0U) << "both stay";
    name->clear();
    EXPECT_EQ(run()->measured, 0U);
  }
  for (const char* text : {"one", "two"}) {
    write(text);
    t.bench.select.policies = {"quest", "kvzap:file=" + path.string()};
    EXPECT_EQ(run()->measured, 4U) << text;
    EXPECT_EQ(run()->measured, 0U) << text;
  }
  t.bench.select.policies = {"quest"};
  EXPECT_EQ(run()->measured, 0U) << "as without a policy";
  t.bench.bounded.models = {path.string()};
  EXPECT_EQ(run()->measured, 4U);
  uint32_t* const numbers[] = {&t.bench.tokens, &t.bench.batch,       &t.bench.prompts,
                               &t.bench.prompt, &t.bench.text_tokens, &t.bench.answer};
  for (uint32_t* const number : numbers) {
    *number = 7;
    EXPECT_EQ(run()->measured, 4U);
  }
  fs::remove(path);
  const auto gone = run();
  ASSERT_FALSE(gone.ok());
  EXPECT_NE(gone.error().message.find(path.string()), std::string::npos);
}

TEST_F(Lab, ShowsCellsOfEarlierCallsWithTheSameInputsWhereTheExperimentGathersThem) {
  const auto listed = [&](const ExperimentRow& row, const std::vector<std::string>& policies) {
    t.bench.select.policies = policies;
    const auto result = run_experiment(row, t.bench, options);
    return result.ok() ? result->report["summary"] : Json(result.error().message);
  };
  EXPECT_EQ(listed(kListing, {"b", "c"}), Json::array({"b", "c"}));
  EXPECT_EQ(listed(kListing, {"d"}), Json::array({"d", "b", "c"}));
  EXPECT_EQ(listed(kListing, {"c"}), Json::array({"c", "b", "d"}));
  EXPECT_EQ(listed(kListingOwn, {"c"}), Json::array({"c"}));
  t.bench.tokens = 7;
  EXPECT_EQ(listed(kListing, {"c"}), Json::array({"c"})) << "other inputs";
  t.bench.tokens = 0;
  Json report = Json::parse(read("listing.json"));
  for (Json& cell : report["cells"])
    if (cell["key"] == "b") cell["what"]["more"] = 1;
  std::ofstream(options.folder / "listing.json") << report;
  EXPECT_EQ(listed(kListing, {"c"}), Json::array({"c", "d"})) << "b is of another version";
  EXPECT_EQ(Json::parse(read("listing.json"))["cells"].size(), 4U) << "but it stays in the file";
}

TEST(Experiments, ReadTheOptionsThatHaveQuickSizes) {
  for (const ExperimentRow& row : experiments()) {
    const QuickSizes& quick = row.quick;
    const std::pair<const char*, bool> sizes[] = {{"--ctx", quick.ctx != 0},
                                                  {"--batch", quick.batch != 0},
                                                  {"--prompts", quick.prompts != 0},
                                                  {"--prompt", quick.prompt != 0},
                                                  {"--tokens", quick.tokens != 0},
                                                  {"--answer", quick.answer != 0},
                                                  {"--shape", quick.shape != nullptr},
                                                  {"--budget", quick.budget != nullptr},
                                                  {"--bandwidth", quick.bandwidth != nullptr}};
    for (const auto& [option, given] : sizes) {
      if (!given) continue;
      EXPECT_TRUE(reads(row, option)) << row.name << ' ' << option;
    }
    EXPECT_FALSE(reads(row, "--promp")) << row.name;
  }
}

TEST_F(Lab, KeepsAFileThatIsNotItsOwn) {
  fs::create_directories(options.folder);
  for (const char* text : {"not json", "[]", R"({"experiment": "another", "cells": []})"}) {
    std::ofstream(options.folder / "counting.json") << text;
    const auto result = run();
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_NE(result.error().message.find("counting.json is no result"), std::string::npos);
    EXPECT_EQ(read("counting.json"), text);
    options.again = true;
    EXPECT_FALSE(run().ok()) << text;
    EXPECT_EQ(read("counting.json"), text);
    options.again = false;
  }
}

TEST_F(Lab, SaysWhenTheFolderCannotBeMade) {
  std::ofstream(options.folder.string()) << "a file";
  const auto result = run();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("cannot make the folder"), std::string::npos);
}

TEST(Report, AlignsTheColumnsOfATable) {
  EXPECT_EQ(text_of(Table{"Title", {"name", "n"}, {{"a", "1"}, {"longer", "22"}}}),
            "Title\nname     n\na        1\nlonger  22\n");
}

TEST(Report, GivesChartsToWhoeverDrawsThem) {
  const Chart lines = {.name = "c",
                       .title = "t",
                       .x_label = "x",
                       .y_label = "y",
                       .log_x = true,
                       .series = {{.name = "model", .points = {{1, 2}, {4, 3}}, .dashed = true}},
                       .bars = {}};
  EXPECT_EQ(json_of(lines), Json::parse(R"({"name": "c", "title": "t", "x_label": "x",
      "y_label": "y", "log_x": true, "log_y": false, "bars": [], "side_by_side": false,
      "columns": [], "rows": [],
      "series": [{"name": "model", "points": [[1.0, 2.0], [4.0, 3.0]], "dashed": true}]})"));
}

TEST(Experiments, HaveNamesOfTheirOwnAndSayWhatTheyLack) {
  TestBench t;
  std::vector<std::string_view> names;
  for (const ExperimentRow& row : experiments()) {
    EXPECT_EQ(find_experiment(row.name), &row);
    EXPECT_FALSE(row.summary.empty());
  }
  EXPECT_EQ(find_experiment("none"), nullptr);
  t.bench.shapes = {"s", "nonsense"};
  const auto cells = find_experiment("bmc-sweep")->make(t.bench)->cells();
  ASSERT_FALSE(cells.ok());
  EXPECT_NE(cells.error().message.find("there is no shape nonsense; there are s, m"),
            std::string::npos);
  const auto waste = find_experiment("waste")->make(t.bench)->cells();
  ASSERT_FALSE(waste.ok());
  EXPECT_NE(waste.error().message.find("--file"), std::string::npos);
}

TEST(Waste, CountsLessThanABlockForEachRunningRequest) {
  TestBench t;
  t.bench.file = testing::TempDir() + fmt::format("kvick_trace_{}.csv", getpid());
  std::ofstream(t.bench.file) << "TIME,A,B\n0,100,28\n1,31,1\n2,500,12\n";
  const auto experiment = find_experiment("waste")->make(t.bench);
  const auto cells = experiment->cells();
  ASSERT_TRUE(cells.ok()) << cells.error().message;
  const auto run = experiment->measure({"paged:block=16", {{"strategy", "paged:block=16"}}});
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_GT(run->at("waste"), 0.0);
  EXPECT_LT(run->at("waste"), 3 * 16.0 / (100 + 31 + 500));
  std::ofstream(t.bench.file) << "TIME,A,B\n0,100,x\n";
  const auto bad = find_experiment("waste")->make(t.bench)->cells();
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find(":2: not a time and two numbers"), std::string::npos);
  std::filesystem::remove(t.bench.file);
}

}  // namespace
}  // namespace kvick::lab
