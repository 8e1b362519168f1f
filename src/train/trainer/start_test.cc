// Tests starting from a model file: the engine's logits, a subset of layers, and what is refused.

#include "train/from_model/start.h"

#include <filesystem>

#include "train/files/export.h"
#include "train/settings/shapes.h"
#include "train/trainer/test_training.h"

namespace kvick::train {
namespace {

using test::engine_logits, test::run_to, test::small_settings, test::small_text, test::test_path;

class Start : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Settings settings = small_settings("llama");
    settings.model.rope_base = 5000;
    settings.model.context = 99;
    trained_ = run_to(settings, small_text(), {.folder = folder_}, 1000);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  Checkpoint start(FileType type, std::vector<uint32_t> layers = {}) {
    export_model(trained_, path_, type, 0);
    return start_of(io::ModelFile::open(path_).value(), layers).value();
  }

  inline static const std::string folder_ = test_path("start"), path_ = folder_ + "/model.gguf";
  inline static Checkpoint trained_;
};

TEST_F(Start, TheTrainerComputesTheEnginesLogitsOfAModelFile) {
  const TokenData data = small_text();
  const std::vector<int64_t> tokens(data.held_out.begin(), data.held_out.begin() + 70);
  for (const FileType type : {FileType::kF32, FileType::kBf16}) {
    const Checkpoint begin = start(type);
    EXPECT_EQ(begin.settings.model.rope_base, 5000);
    EXPECT_EQ(begin.settings.model.context, 99u);
    const Parameters weights(begin.settings, torch::kCPU);
    const at::NoGradGuard no_grad;
    Tensor values = weights.values();
    values.copy_(torch::tensor(begin.values));
    const Tensor got =
        logits_of(weights, begin.settings.model, torch::tensor(tokens).unsqueeze(0), {})
            .contiguous();
    const std::vector<float> expected = engine_logits(path_, {tokens.begin(), tokens.end()});
    ASSERT_EQ(expected.size(), static_cast<size_t>(got.numel()));
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(got.data_ptr<float>()[i], expected[i], 1e-4) << i;
  }
}

TEST_F(Start, QuantisedWeightsAreReadAsTheyAreMeant) {
  const Checkpoint begin = start(FileType::kQ8_0);
  size_t differ = 0, at = 0;
  for (const TensorShape& tensor : tensors_of(begin.settings.model)) {
    const size_t end = at + tensor.elements();
    for (size_t block = at; block < end; block += 32) {
      float largest = 0;
      for (size_t i = block; i < block + 32; ++i)
        largest = std::max(largest, std::abs(trained_.best[i]));
      // Half a step of 1/127, and the rounding of the scale to float16.
      const float allowed = tensor.shape.size() == 1 ? 0 : largest * (0.5F / 127 + 1e-3F);
      for (size_t i = block; i < block + 32; ++i) {
        ASSERT_NEAR(begin.values[i], trained_.best[i], allowed) << tensor.name;
        differ += begin.values[i] != trained_.best[i];
      }
    }
    at = end;
  }
  EXPECT_GT(differ, at / 2);
}

TEST_F(Start, SomeLayersComeInTheOrderThatIsAskedFor) {
  const Checkpoint all = start(FileType::kF32), turned = start(FileType::kF32, {1, 0}),
                   last = start(FileType::kF32, {1});
  const size_t embedding = 257 * 64, layer = (all.values.size() - embedding - 64) / 2;
  const auto part = [&](const Checkpoint& c, size_t first, size_t count) {
    const auto from = c.values.begin() + static_cast<ptrdiff_t>(first);
    return std::vector<float>(from, from + static_cast<ptrdiff_t>(count));
  };
  EXPECT_EQ(all.values, trained_.best);
  EXPECT_EQ(part(turned, embedding, layer), part(all, embedding + layer, layer));
  EXPECT_EQ(part(turned, embedding + layer, layer), part(all, embedding, layer));
  EXPECT_EQ(last.settings.model.layers, 1u);
  EXPECT_EQ(part(last, embedding, layer + 64), part(all, embedding + layer, layer + 64));
}

TEST_F(Start, SurvivesItsFileAndBeginsARun) {
  const Checkpoint begin = start(FileType::kF32);
  const std::string file = folder_ + "/start.kvc";
  write_checkpoint(file, begin);
  const Checkpoint again = read_checkpoint(file);
  EXPECT_EQ(again.values, begin.values);
  EXPECT_EQ(again.best, begin.values);
  EXPECT_TRUE(again.first.empty());
  RunOptions options = {.folder = test_path("begun"), .start = &again};
  Settings settings = {.model = again.settings.model, .run = trained_.settings.run};
  settings.model.ctx = 40;
  settings.run.steps = 2;
  settings.run.lr = 1e-6;
  const Checkpoint more = run_to(settings, small_text(), options, 1000);
  EXPECT_NEAR(more.best_held_out, trained_.best_held_out, 0.2);
  EXPECT_NE(more.values, again.values);
  std::filesystem::remove_all(options.folder);
}

TEST_F(Start, DataOfAnotherVocabularyOrAnotherShapeIsRefused) {
  const Checkpoint begin = start(FileType::kF32);
  const RunOptions options = {.folder = test_path("refused"), .start = &begin};
  const auto mistake = [&](const Settings& settings, const TokenData& data) {
    try {
      run_to(settings, data, options, 1000);
    } catch (const Mistake& said) {
      return std::string(said.what());
    }
    return std::string();
  };
  TokenData other = small_text();
  other.vocabulary.bytes += "x";
  EXPECT_EQ(mistake({.model = begin.settings.model, .run = {}}, other),
            "the data has another vocabulary than the model of --start");
  Settings deeper = {.model = begin.settings.model, .run = {}};
  deeper.model.layers = 3;
  EXPECT_EQ(mistake(deeper, small_text()),
            "--start decides the shape of the model, but these options differ from it: --layers");
  EXPECT_FALSE(std::filesystem::exists(options.folder));
}

TEST_F(Start, WhatTheTrainerCannotComputeIsRefused) {
  const auto error = [&](const std::string& path, std::vector<uint32_t> layers = {}) {
    const auto refused = start_of(io::ModelFile::open(path).value(), layers);
    return refused.ok() ? "" : refused.error().message;
  };
  export_model(trained_, path_, FileType::kF32, 0);
  EXPECT_EQ(error(path_, {0, 2}), path_ + ": has no layer 2, only 0 to 1");
  const std::string folder = test_path("bct");
  run_to(small_settings("bct"), small_text(), {.folder = folder}, 1);
  const std::string bct = folder + "/model.gguf";
  export_model(read_checkpoint(checkpoint_path(folder)), bct, FileType::kF32, 0);
  EXPECT_EQ(error(bct), bct +
                            ": its architecture is bct; kvick-train starts from models of the "
                            "architecture llama only");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvick::train
