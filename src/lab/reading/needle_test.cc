#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>

#include "lab/core/lab.h"
#include "lab/core/test_bench.h"
#include "lab/core/test_text.h"
#include "lab/data/needle_text.h"

namespace kvick::lab {
namespace {

TEST(Needle, AsksWithTheBeginningOfTheFactAndIsAnsweredByItsEnd) {
  ModelBench t;
  const text::Tokenizer& tokenizer = t.bench.model(engine::Attention::kFused).value()->tokenizer();
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Needle needle = needle_of(tokenizer, seed);
    std::vector<engine::Token> both = needle.question;
    both.insert(both.end(), needle.answer.begin(), needle.answer.end());
    EXPECT_FALSE(needle.answer.empty());
    EXPECT_EQ(tokenizer.decode(both) + ".\n", tokenizer.decode(needle.fact)) << seed;
    EXPECT_EQ(needle_of(tokenizer, seed).answer, needle.answer) << seed;
  }
  EXPECT_NE(needle_of(tokenizer, 0).answer, needle_of(tokenizer, 1).answer);
}

TEST(Needle, IsPlantedWholeAtItsDepthInATextOfTheLengthThatWasAskedFor) {
  ModelBench t;
  const text::Tokenizer& tokenizer = t.bench.model(engine::Attention::kFused).value()->tokenizer();
  const Needle needle = needle_of(tokenizer, 3);
  const std::vector<engine::Token> hay(2000, tokenizer.encode("x", false, false).back());
  size_t last = 0;
  for (const double depth : {0.0, 0.5, 1.0}) {
    const auto text = plant(tokenizer, needle, hay, {.length = 400, .depth = depth, .from = 77});
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_EQ(text->size() + needle.question.size() + needle.answer.size(), 400U);
    const auto at = std::search(text->begin(), text->end(), needle.fact.begin(), needle.fact.end());
    ASSERT_NE(at, text->end()) << depth;
    const auto place = static_cast<size_t>(at - text->begin());
    EXPECT_GE(place, last);
    last = place;
  }
  EXPECT_EQ(last + needle.fact.size() + needle.question.size() + needle.answer.size(), 400U);
}

TEST(Needle, GoesBehindTheSentenceThatEndsBeforeItsDepth) {
  ModelBench t;
  const text::Tokenizer& tokenizer = t.bench.model(engine::Attention::kFused).value()->tokenizer();
  const Needle needle = needle_of(tokenizer, 3);
  std::vector<engine::Token> hay(1000, tokenizer.encode("x", false, false).back());
  for (size_t i = 9; i < hay.size(); i += 10) hay[i] = tokenizer.encode(".", false, false).back();
  const auto text = plant(tokenizer, needle, hay, {.length = 350, .depth = 0.33});
  ASSERT_TRUE(text.ok());
  const auto at = std::search(text->begin(), text->end(), needle.fact.begin(), needle.fact.end());
  EXPECT_NE(tokenizer.piece(*(at - 1), false).find('.'), std::string::npos);
}

TEST(Needle, ShowsEveryPlaceForFullAttentionAndEachPolicy) {
  ModelBench t;
  t.bench.file = write_words(400);
  t.bench.tokens = 480;
  t.bench.prompts = 2;
  t.bench.select = {.policies = {"quest:dense_layers=0", "streaming"}};
  const auto experiment = find_experiment("needle")->make(t.bench);
  const std::vector<Measured> all = measure_all(*experiment);
  ASSERT_EQ(all.size(), 3U * 5 * 3);
  const Findings found = experiment->findings(all);
  ASSERT_EQ(found.charts.size(), 1U);
  EXPECT_EQ(found.charts[0].series.size(), 3U);
  EXPECT_EQ(found.charts[0].series[2].points.size(), 15U);
  EXPECT_EQ(found.charts[0].columns, (std::vector<std::string>{"120", "240", "480"}));
  EXPECT_EQ(found.summary["policies"][1]["policy"], "quest dense_layers=0 25 %");
  std::filesystem::remove(t.bench.file);
}

// Made-up results: full attention finds the first fact everywhere, the policy only at depth 100.
TEST(Needle, ComparesWithWhatFullAttentionFinds) {
  ModelBench t;
  t.bench.file = write_words(400);
  t.bench.tokens = 480;
  t.bench.prompts = 2;
  t.bench.select = {.policies = {"h2o"}};
  const auto experiment = find_experiment("needle")->make(t.bench);
  const std::vector<Measured> all = make_up_all(*experiment, [](const Cell& cell) -> Json {
    const bool finds = cell.what["policy"] == "full" || cell.what["depth_percent"] == 100;
    return {{"found", finds ? 0.5 : 0.0},
            {"tokens_right", 0.5},
            {"nll", 1.0},
            {"by_fact", {finds, false}}};
  });
  const Json row = experiment->findings(all).summary["policies"][1];
  EXPECT_EQ(row["full_finds"], 15);
  EXPECT_EQ(row["of_these_found"], 3);
  EXPECT_DOUBLE_EQ(row["found_percent"].get<double>(), 10);
  std::filesystem::remove(t.bench.file);
}

// Made-up results: the share that is found grows with the depth, then with the length.
TEST(Needle, ShowsPoliciesThatEarlierCallsMeasuredWhole) {
  ModelBench t;
  t.bench.file = write_words(400);
  t.bench.tokens = 480;
  t.bench.prompts = 2;
  const auto made = [&](const char* policy) {
    t.bench.select = {.policies = {policy}};
    return find_experiment("needle")->make(t.bench);
  };
  const auto run = [](const Cell& cell) -> Json {
    const double place = 1000 * cell.what["depth_percent"].get<double>();
    return {{"found", place + cell.what["length"].get<double>()},
            {"tokens_right", 0.5},
            {"nll", 1.0},
            {"by_fact", {true, false}}};
  };
  std::vector<Measured> before = make_up_all(*made("streaming"), run);
  std::vector<Measured> broken = make_up_all(*made("quest"), run);
  const auto experiment = made("h2o");
  std::vector<Measured> all = make_up_all(*experiment, run);
  const auto add = [&](std::vector<Measured>& cells, size_t count) {
    std::erase_if(cells, [](const Measured& one) { return one.cell.what["policy"] == "full"; });
    std::reverse(cells.begin(), cells.end());  // cells of earlier calls come in any order
    all.insert(all.end(), cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(count));
  };
  add(before, 15);
  add(broken, 14);
  const Findings found = experiment->findings(all);
  const Json& policies = found.summary["policies"];
  ASSERT_EQ(policies.size(), 3U);
  EXPECT_EQ(policies[1]["policy"], "h2o 25 %");
  EXPECT_EQ(policies[2]["policy"], "streaming 25 %");
  EXPECT_EQ(policies[2]["full_finds"], 15);
  const std::vector<Series>& series = found.charts[0].series;
  ASSERT_EQ(series.size(), 3U);
  ASSERT_EQ(series[2].points.size(), 15U);
  EXPECT_EQ(series[2].points[0].y, 120);      // the first depth and length
  EXPECT_EQ(series[2].points[2].y, 480);      // the first depth, the last length
  EXPECT_EQ(series[2].points[14].y, 100480);  // the last depth and length
  std::filesystem::remove(t.bench.file);
}

TEST(Needle, SaysWhatIsWrong) {
  ModelBench t;
  const auto error_of = [&] {
    const auto cells = find_experiment("needle")->make(t.bench)->cells();
    return cells.ok() ? std::string() : cells.error().message;
  };
  EXPECT_EQ(error_of(), "needle needs a text: --file TEXT");
  t.bench.file = write_words(20);
  EXPECT_NE(error_of().find("give a longer --file"), std::string::npos) << error_of();
  t.bench.tokens = 64;
  EXPECT_NE(error_of().find("no room for the fact"), std::string::npos) << error_of();
  t.bench.tokens = 1000;
  EXPECT_EQ(error_of(), "a context of 1000 tokens was asked for, but the model has 512");
}

TEST(Needle, LeavesLengthsOutThatHaveNoRoomForTheFact) {
  ModelBench t;
  std::vector<std::string> notes;
  t.bench.note = [&](std::string_view note) { notes.emplace_back(note); };
  t.bench.file = write_words(400);
  t.bench.tokens = 240;
  t.bench.select = {.policies = {"h2o"}};
  const auto cells = find_experiment("needle")->make(t.bench)->cells();
  ASSERT_TRUE(cells.ok()) << cells.error().message;
  EXPECT_EQ(cells->size(), 2U * 5 * 2);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("a context of 60 tokens has no room"), std::string::npos);
  std::filesystem::remove(t.bench.file);
}

}  // namespace
}  // namespace kvick::lab
