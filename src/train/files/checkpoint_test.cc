#include "train/files/checkpoint.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "train/files/binary_file.h"
#include "train/files/export.h"
#include "train/files/loss_curve.h"
#include "train/settings/shapes.h"
#include "train/settings/test_mistake.h"

namespace kvick::train {
namespace {

std::string test_path(const std::string& name) {
  return testing::TempDir() + "kvick_train_" + std::to_string(getpid()) + "_" + name;
}

Checkpoint small_checkpoint() {
  Checkpoint c;
  c.settings.model.arch = "bct";
  c.settings.model.dim = 64;
  c.settings.model.heads = 2;
  c.settings.model.layers = 1;
  c.settings.model.vocab = 30;
  c.settings.model.slots = 8;
  complete(c.settings);
  c.step = 12;
  c.seconds = 3.5;
  c.log = {{6, 2.5, 2.75, 0.25, 1}, {12, 2, NAN, NAN, 3.5}};
  c.best_held_out = 2.75;
  uint64_t elements = 0;
  for (const TensorShape& tensor : tensors_of(c.settings.model)) elements += tensor.elements();
  for (std::vector<float>* part : {&c.values, &c.first, &c.second, &c.best})
    for (uint64_t i = 0; i < elements; ++i)
      part->push_back(static_cast<float>(i) + static_cast<float>(part - &c.values));
  return c;
}

TEST(Checkpoint, HoldsAllThatWasPutIn) {
  const std::string path = test_path("a.kvc");
  const Checkpoint c = small_checkpoint();
  write_checkpoint(path, c);
  const Checkpoint again = read_checkpoint(path);
  EXPECT_EQ(to_text(again.settings), to_text(c.settings));
  EXPECT_EQ(again.step, 12u);
  EXPECT_EQ(again.seconds, 3.5);
  ASSERT_EQ(again.log.size(), 2u);
  EXPECT_EQ(again.log[0].held_out, 2.75);
  EXPECT_TRUE(std::isnan(again.log[1].held_out));
  EXPECT_EQ(again.values, c.values);
  EXPECT_EQ(again.first, c.first);
  EXPECT_EQ(again.second, c.second);
  EXPECT_EQ(again.best, c.best);
  std::filesystem::remove(path);
}

TEST(Checkpoint, ACutOneIsRefusedAtEveryLength) {
  const std::string path = test_path("cut.kvc");
  write_checkpoint(path, small_checkpoint());
  const auto size = std::filesystem::file_size(path);
  for (const uint64_t left : {uint64_t{0}, uint64_t{5}, uint64_t{100}, size / 2, size - 1}) {
    std::filesystem::resize_file(path, left);
    EXPECT_NE(mistake_of([&] { read_checkpoint(path); }), "") << left;
    write_checkpoint(path, small_checkpoint());
  }
  std::ofstream(path, std::ios::app) << 'x';
  EXPECT_EQ(mistake_of([&] { read_checkpoint(path); }), path + ": goes on where it should end");
  std::filesystem::remove(path);
}

TEST(Checkpoint, AWriterThatDoesNotFinishLeavesTheOldFile) {
  const std::string path = test_path("old");
  write_text(path, "old");
  { BinaryWriter(path).string("new"); }
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "old");
  std::filesystem::remove(path);
  EXPECT_TRUE(mistake_of([] {
                BinaryWriter("/no/such/folder/file");
              }).starts_with("/no/such/folder/file: cannot be written: "));
}

TEST(Export, SaysWhyAModelCannotBeAFile) {
  Checkpoint c = small_checkpoint();
  const auto mistake = [&] {
    return mistake_of([&] { export_model(c, test_path("no.gguf"), FileType::kF32, 0); });
  };
  EXPECT_EQ(
      mistake(),
      "a model of made-up tokens (--task text) has no vocabulary, and a model file needs one");
  c.settings.model.update = "delta";
  EXPECT_EQ(mistake(),
            "the update delta is one that the engine does not have; it has plain, step and gated");
  c.settings.model.update = "step";
  c.vocabulary.pairs = 1;
  c.best[3] = NAN;
  EXPECT_EQ(mistake(), "the weights are not finite; train with a smaller --lr");
  EXPECT_FALSE(std::filesystem::exists(test_path("no.gguf")));
}

TEST(LossCurve, WritesWhatWasNotMeasuredAsNull) {
  const Checkpoint c = small_checkpoint();
  EXPECT_EQ(
      log_json(c.log),
      "[{\"step\": 6, \"loss\": 2.5, \"held_out\": 2.75, \"accuracy\": 0.25, \"seconds\": 1},\n"
      " {\"step\": 12, \"loss\": 2, \"held_out\": null, \"accuracy\": null, \"seconds\": "
      "3.5}]\n");
  EXPECT_EQ(log_json({}), "[]\n");
}

TEST(LossCurve, SumsARunUpInALine) {
  Checkpoint c = small_checkpoint();
  const std::string text = summary_json(c);
  EXPECT_TRUE(text.starts_with("{\"arch\": \"bct\", \"task\": \"text\", \"update\": \"step\""))
      << text;
  EXPECT_TRUE(text.ends_with("\"accuracy\": 0.25}\n")) << text;  // the last one measured
  EXPECT_EQ(text.find("pairs"), std::string::npos);
  c.settings.run.task = "mqar";
  c.log.clear();
  EXPECT_NE(summary_json(c).find("\"pairs\": 16, \"symbols\": 256"), std::string::npos);
  EXPECT_TRUE(summary_json(c).ends_with("\"accuracy\": null}\n"));
  c.settings.model.arch = "llama";
  EXPECT_NE(summary_json(c).find("\"update\": null, \"slots\": null"), std::string::npos);
}

TEST(LossCurve, IsDrawnForAnyLog) {
  for (const std::vector<LogPoint>& log :
       {std::vector<LogPoint>{}, std::vector<LogPoint>{{5, NAN, NAN, NAN, 1}},
        std::vector<LogPoint>{{5, 2, NAN, NAN, 1}}, small_checkpoint().log}) {
    const std::string svg = loss_svg(log, "title");
    EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvick::train
