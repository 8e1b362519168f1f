#include "lab/data/recall.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace kvick::lab {
namespace {

class Recall : public testing::Test {
 protected:
  ~Recall() override {
    for (const std::string& path : paths_) std::filesystem::remove(path);
  }
  std::string write(const std::string& text) {
    paths_.push_back(
        fmt::format("{}kvick_{}_recall_{}.json", testing::TempDir(), getpid(), paths_.size()));
    std::ofstream(paths_.back()) << text;
    return paths_.back();
  }
  std::string error_of(const std::string& text) {
    const auto runs = read_recall({write(text)});
    return runs.ok() ? std::string() : runs.error().message.substr(paths_.back().size());
  }
  std::vector<std::string> paths_;
};

std::string line(const char* task, const char* update, int slots, double accuracy) {
  return fmt::format(
      R"({{"arch": "bct", "task": "{}", "update": "{}", "slots": {}, "pairs": 8, "accuracy": {}}})"
      "\n",
      task, update, slots, accuracy);
}

constexpr const char* kRows =
    R"({"arch": "llama", "task": "mqar", "update": null, "slots": null, "pairs": 8, "accuracy": 1})"
    "\n";

TEST_F(Recall, IsDrawnByTaskUpdateAndSlots) {
  const auto runs = read_recall({write(line("mqar", "step", 64, 0.5) + line("copy", "step", 16, 0)),
                                 write(line("mqar", "step", 16, 0.25)), write(kRows)});
  ASSERT_TRUE(runs.ok()) << runs.error().message;
  ASSERT_EQ(runs->size(), 4U);
  Findings findings;
  add_recall(*runs, findings);
  EXPECT_EQ(findings.summary["recall"].size(), 4U);
  ASSERT_EQ(findings.charts.size(), 2U);
  EXPECT_EQ(findings.charts[0].name, "bounded-recall-copy");
  const Chart& mqar = findings.charts[1];
  ASSERT_EQ(mqar.series.size(), 2U);
  EXPECT_EQ(mqar.series[0].name, "rows (lm), 8 pairs");
  EXPECT_TRUE(mqar.series[0].dashed);
  ASSERT_EQ(mqar.series[0].points.size(), 2U);  // one for each number of slots
  EXPECT_EQ(mqar.series[0].points[1].y, 100);
  EXPECT_EQ(mqar.series[1].points[0].x, 16);
  EXPECT_EQ(mqar.series[1].points[1].y, 50);
  const std::vector<std::string> columns = {"update", "M=16", "M=64"};
  EXPECT_EQ(findings.tables[1].columns, columns);
  const std::vector<std::string> row = {"step, 8 pairs", "25.0", "50.0"};
  EXPECT_EQ(findings.tables[1].rows[1], row);
}

TEST_F(Recall, KeepsApartWhatTokensAreWrittenByAndHowTheyAreRead) {
  const std::string own = line("mqar", "gated", 16, 0.5);
  std::string normed = line("mqar", "gated", 16, 0.25);
  normed.insert(1, R"("address": "own", "read": "normed", )");
  std::string previous = line("mqar", "gated", 16, 1);
  previous.insert(1, R"("address": "both", )");
  const auto runs = read_recall({write(normed + previous + own)});
  ASSERT_TRUE(runs.ok()) << runs.error().message;
  Findings findings;
  add_recall(*runs, findings);
  const std::vector<std::vector<std::string>> rows = {{"gated, 8 pairs", "50.0"},
                                                      {"gated normed, 8 pairs", "25.0"},
                                                      {"gated both, 8 pairs", "100.0"}};
  EXPECT_EQ(findings.tables[0].rows, rows);
}

TEST_F(Recall, SaysWhatIsWrongWithAFile) {
  EXPECT_EQ(read_recall({"/nowhere.json"}).error().message, "cannot read /nowhere.json");
  EXPECT_EQ(error_of("\nno json\n"), ":2: is no summary of kvick train");
  EXPECT_EQ(error_of(R"({"arch": "bct", "task": "text", "accuracy": null})"),
            ":1: is of --task text, or was not measured; recall is --task mqar and --task copy");
  EXPECT_EQ(error_of(R"({"arch": "bct", "task": "mqar", "pairs": 8, "accuracy": 0.5})"),
            ":1: is no summary of kvick train: a memory has an update and slots");
  const std::string twice = line("mqar", "step", 64, 0.5) + line("mqar", "step", 64, 0.4);
  EXPECT_EQ(read_recall({write(twice)}).error().message,
            "two runs of mqar with step, 8 pairs and 64 slots: give one of them");
}

}  // namespace
}  // namespace kvick::lab
