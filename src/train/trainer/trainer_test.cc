// Tests that need libtorch: steps, resuming, and the engine's logits of an exported model.

#include "train/trainer/trainer.h"

#include <ATen/Parallel.h>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

#include "train/files/export.h"
#include "train/trainer/check.h"
#include "train/trainer/test_training.h"

namespace kvick::train {
namespace {

using test::engine_logits, test::run_to, test::small_settings, test::small_text, test::test_path;

TEST(Trainer, ChunkedMemoryIsTheDefinitionTokenByToken) {
  for (const CheckResult& result : check_device(torch::kCPU))
    EXPECT_TRUE(result.ok()) << result.what << ": " << result.difference;
}

TEST(Optimiser, IsAdamWWithClippedGradients) {
  Settings settings = small_settings("llama");
  settings.run.clip = 0.5;
  const Parameters weights(settings, torch::kCPU);
  Optimiser optimiser(weights, settings.run);
  const Tensor before = weights.values().clone();
  std::vector<double> w, m, v;
  constexpr int64_t kFirst = 257 * 64 - 2;  // the end of the embedding and the norm after it
  for (int64_t i = 0; i < 4; ++i) w.push_back(before[kFirst + i].item<double>());
  m.resize(4), v.resize(4);
  for (int step = 0; step < 3; ++step) {
    Tensor gradient = weights.gradients();
    gradient.narrow(0, kFirst, 4).copy_(torch::tensor({1.0, -2.0, 3.0, 0.25}) * (step + 1));
    const std::vector<double> g = {1, -2, 3, 0.25};
    const double norm = std::sqrt(1 + 4 + 9 + 0.0625) * (step + 1);
    for (size_t i = 0; i < 4; ++i) {
      const double clipped = g[i] * (step + 1) * 0.5 / norm;
      m[i] = 0.9 * m[i] + 0.1 * clipped;
      v[i] = 0.95 * v[i] + 0.05 * clipped * clipped;
      w[i] -= 0.01 * (i < 2 ? 0.1 * w[i] : 0);
      w[i] -= 0.01 * (m[i] / (1 - std::pow(0.9, step + 1))) /
              (std::sqrt(v[i] / (1 - std::pow(0.95, step + 1))) + 1e-8);
    }
    optimiser.update(static_cast<uint64_t>(step), 0.01);
    EXPECT_EQ(weights.gradients().abs().max().item<float>(), 0);
  }
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(weights.values()[kFirst + static_cast<int64_t>(i)].item<double>(), w[i], 1e-6);
}

TEST(Optimiser, RisesThenFollowsACosine) {
  const RunSettings run = {.warmup = 10, .lr = 2, .least_lr = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(run, 0, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(run, 9, 0.1), 2);
  EXPECT_DOUBLE_EQ(learning_rate(run, 50, 0.5), 1.1);
  EXPECT_DOUBLE_EQ(learning_rate(run, 99, 1), 0.2);
}

TEST(Parameters, GatesOfTheHeadsBeginWithMemoriesOfGeometricLengths) {
  Settings settings = small_settings("bct");
  settings.model.update = "gated";
  settings.model.heads = settings.model.kv_heads = 3;
  settings.model.shortest = 5, settings.model.longest = 65;
  const Parameters weights(settings, torch::kCPU);
  const Tensor gates = torch::sigmoid(weights.at("blk.1.memory_gate.bias"));
  const double kept[] = {4.0 / 5, 16.0 / 17, 64.0 / 65};
  for (int64_t head = 0; head < 3; ++head)
    EXPECT_NEAR(gates[head].item<double>(), kept[head], 1e-6);
  settings.model.heads = settings.model.kv_heads = 1;
  EXPECT_NEAR(
      torch::sigmoid(Parameters(settings, torch::kCPU).at("blk.0.memory_gate.bias")).item<double>(),
      16.0 / 17, 1e-6);
}

class TrainerOf : public testing::TestWithParam<const char*> {};

TEST_P(TrainerOf, ARunThatWasStoppedGoesOnAsIfItHadNotBeen) {
  at::set_num_threads(1);
  Settings settings = small_settings(GetParam());
  settings.run.dropout = 0.1;
  const TokenData data = small_text();
  RunOptions options = {.folder = test_path("whole"), .log_steps = 4, .held_out_steps = 8};
  const Checkpoint whole = run_to(settings, data, options, 1000);
  options.folder = test_path("parts");
  const Checkpoint part = run_to(settings, data, options, 10);
  EXPECT_EQ(part.step, 10u);
  EXPECT_NE(part.values, whole.values);
  options.resume = true;
  const Checkpoint both = run_to(settings, data, options, 1000);
  EXPECT_EQ(both.step, 20u);
  EXPECT_EQ(both.values, whole.values);
  EXPECT_EQ(both.first, whole.first);
  EXPECT_EQ(both.second, whole.second);
  EXPECT_EQ(both.best, whole.best);
  ASSERT_EQ(both.log.size(), whole.log.size());
  for (size_t i = 0; i < both.log.size(); ++i) EXPECT_EQ(both.log[i].loss, whole.log[i].loss);
  EXPECT_LT(whole.log.back().loss, whole.log.front().loss);
  std::filesystem::remove_all(test_path("whole"));
  std::filesystem::remove_all(test_path("parts"));
}

void expect_engine_agrees(const Settings& settings) {
  const TokenData data = small_text();
  const std::string folder = test_path("parity"), path = folder + "/model.gguf";
  const Checkpoint checkpoint = run_to(settings, data, {.folder = folder}, 1000);
  export_model(checkpoint, path, FileType::kF32, 0);
  Parameters weights(settings, torch::kCPU);
  const at::NoGradGuard no_grad;
  Tensor values = weights.values();
  values.copy_(torch::tensor(checkpoint.best));
  const std::vector<int64_t> tokens(data.held_out.begin(), data.held_out.begin() + 70);
  const Tensor expected =
      logits_of(weights, settings.model, torch::tensor(tokens).unsqueeze(0), {}).contiguous();
  const std::vector<float> got = engine_logits(path, {tokens.begin(), tokens.end()});
  ASSERT_EQ(got.size(), static_cast<size_t>(expected.numel()));
  const float* each = expected.data_ptr<float>();
  float largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], each[i], 1e-4) << i;
    largest = std::max(largest, std::abs(each[i]));
  }
  EXPECT_GT(largest, 0.5F);  // the model has learnt something to compare
  std::filesystem::remove_all(folder);
}

TEST_P(TrainerOf, TheEngineComputesTheLogitsThatWereTrained) {
  expect_engine_agrees(small_settings(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Archs, TrainerOf, testing::Values("llama", "bct"),
                         [](const auto& name) { return std::string(name.param); });

TEST(Trainer, TheEngineComputesTheOtherUpdatesThatFilesHaveToo) {
  for (const char* update : {"plain", "gated"}) {
    SCOPED_TRACE(update);
    Settings settings = small_settings("bct");
    settings.model.update = update;
    for (const char* address : kAddresses) {
      settings.model.address = address;
      settings.model.read = address == std::string("both") ? "normed" : "plain";
      expect_engine_agrees(settings);
    }
  }
}

TEST(Trainer, ARunIsNeitherWrittenOverNorResumedAsAnother) {
  Settings settings = small_settings("llama");
  settings.run.steps = 1;
  const TokenData data = small_text();
  RunOptions options = {.folder = test_path("kept")};
  run_to(settings, data, options, 1000);
  const auto mistake = [&] {
    try {
      run_to(settings, data, options, 1000);
    } catch (const Mistake& said) {
      return std::string(said.what());
    }
    return std::string();
  };
  const std::string path = checkpoint_path(options.folder);
  EXPECT_EQ(mistake(), path + " is there already: go on with --resume, or name another folder");
  options.resume = true;
  settings.run.lr = 1;
  EXPECT_EQ(mistake(),
            "--resume continues with the settings of the earlier run, but these differ: --lr");
  std::filesystem::remove_all(options.folder);
  EXPECT_EQ(mistake(), path + " is not there, so there is nothing to resume");
}

}  // namespace
}  // namespace kvick::train
