// Compares the uses of rows, and what is trained on them, with their definitions.

#include "distil/kvzap.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "distil/test_inputs.h"

#include "engine/core/test_engine.h"

namespace kvick::distil {
namespace {

// A small model and its file, which is deleted but still mapped.
struct Opened {
  explicit Opened(uint32_t context, uint32_t dim = 64) {
    tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
    spec.context = context;
    spec.vocab = 512;
    spec.dim = dim;
    base::ThreadPool pool(1);
    const std::string path = model::write_model(spec, pool, false);
    file = std::make_unique<io::ModelFile>(io::ModelFile::open(path).value());
    engine =
        engine::Engine::open({.model_path = path, .threads = 2, .isa = base::best_isa()}).value();
    std::filesystem::remove(path);
  }
  std::unique_ptr<io::ModelFile> file;
  std::unique_ptr<engine::Engine> engine;
};

void check_uses(float scale) {  // of the logits; 0: the usual one
  constexpr uint32_t kTokens = 40, kAhead = 7, kDim = 8, kValue = 6;
  const model::LayerConfig heads = layer_of(4, 2, kDim, kValue);
  std::mt19937 random(4);
  const auto made = [&](size_t n) { return normal_floats(random, n, 2); };
  const std::vector<float> q = made(kTokens * 4 * kDim), k = made(kTokens * 2 * kDim),
                           v = made(kTokens * 2 * kValue);
  constexpr uint32_t kOutputs = 5;
  const std::vector<float> w = made(kOutputs * 4 * kValue);
  base::ThreadPool pool(2);
  const kernels::Table& kernels = kernels::table(base::best_isa());
  const std::vector<float> found = uses(
      {.layer = 0, .tokens = kTokens, .scale = scale, .q = q.data(), .k = k.data(), .v = v.data()},
      heads, output_squares(w, heads, kernels), kAhead, kernels, pool);
  for (uint32_t head = 0; head < 2; ++head)
    for (uint32_t row = 0; row < kTokens; ++row) {
      double most = 0, length = 0;
      for (uint32_t query = row + kAhead; query < kTokens; ++query)
        for (uint32_t g = 0; g < 2; ++g) {
          const auto weight = [&](uint32_t of) {
            double dot = 0;
            for (uint32_t d = 0; d < kDim; ++d)
              dot +=
                  double{q[(query * 4 + head * 2 + g) * kDim + d]} * k[(of * 2 + head) * kDim + d];
            return std::exp(dot * (scale != 0 ? scale : 1 / std::sqrt(double{kDim})));
          };
          double sum = 0;
          for (uint32_t of = 0; of <= query; ++of) sum += weight(of);
          most = std::max(most, weight(row) / sum);
        }
      for (uint32_t g = 0; g < 2; ++g) {
        double square = 0;
        for (uint32_t out = 0; out < kOutputs; ++out) {
          double sum = 0;
          for (uint32_t d = 0; d < kValue; ++d)
            sum +=
                double{w[(out * 4 + head * 2 + g) * kValue + d]} * v[(row * 2 + head) * kValue + d];
          square += sum * sum;
        }
        length += std::sqrt(square) / 2;
      }
      const double expected = most * length;
      EXPECT_NEAR(found[row * 2 + head], expected, 1e-3 * expected + 1e-7) << row;
    }
}

TEST(Uses, AreTheLargestProbabilityOfLaterQueriesTimesWhatTheValueAdds) {
  check_uses(0);
  check_uses(0.1F);
}

TEST(TrainScores, ExplainsWhatItWasTrainedFor) {
  const Opened of(256);
  const Scores made =
      train_scores(*of.engine, *of.file, text_of(1500), {.window = 128, .ahead = 16}).value();
  const kv::PredictorShape& shape = made.predictor.shape;
  EXPECT_EQ(shape.form, kv::PredictorForm::kScores);
  EXPECT_EQ(made.tokens, 1280u);
  EXPECT_EQ(made.held_out, 128u);
  ASSERT_EQ(made.layers.size(), shape.layers);
  for (size_t layer = 0; layer < made.layers.size(); ++layer) {
    EXPECT_TRUE(made.predictor.layers[layer].q.empty());
    EXPECT_EQ(made.predictor.layers[layer].k.size(), shape.kv_heads * (shape.dim + 1));
    EXPECT_LE(made.layers[layer].mass, 1 + 1e-9);
  }
  // The first layer's keys depend on the tokens alone. A random quarter of the rows would have a
  // recall of 0.25.
  EXPECT_GT(made.layers[0].explained, 0.3);
  EXPECT_GT(made.layers[0].recall, 0.4);
}

TEST(TrainScores, DoNotDependOnHowManyLayersAreSummedAtATime) {
  const Opened of(256);
  KvzapOptions options = {.window = 128, .ahead = 16};
  const Scores all = train_scores(*of.engine, *of.file, text_of(500), options).value();
  options.memory = 1;
  const Scores each = train_scores(*of.engine, *of.file, text_of(500), options).value();
  for (size_t layer = 0; layer < all.predictor.layers.size(); ++layer)
    EXPECT_EQ(all.predictor.layers[layer].k, each.predictor.layers[layer].k);
}

TEST(TrainScores, SayWhatIsWrong) {
  const Opened of(128);
  const auto refusal = [&](size_t tokens, const KvzapOptions& options) {
    return train_scores(*of.engine, *of.file, text_of(tokens), options).error().message;
  };
  EXPECT_NE(refusal(100, {.window = 64, .ahead = 8}).find("needs two windows of 64"),
            std::string::npos);
  const Opened wider(64, 96);
  EXPECT_NE(train_scores(*of.engine, *wider.file, text_of(500), {.window = 64, .ahead = 8})
                .error()
                .message.find("blk.0.attn_output.weight is missing, or not"),
            std::string::npos);
  EXPECT_EQ(refusal(500, {.window = 64, .ahead = 16}),
            "windows of 64 tokens are too short to measure attention 16 tokens later: give windows "
            "of at least 68 tokens, or count attention from at most 15 tokens later (--ahead)");
  EXPECT_EQ(refusal(500, {.window = 128, .ahead = 128}),
            "windows of 128 tokens are too short to measure attention 128 tokens later: count "
            "attention from at most 31 tokens later (--ahead)")
      << "no window of this model is longer";
  EXPECT_EQ(refusal(500, {.window = 8, .ahead = 1}),
            "windows of 8 tokens are too short to learn from: give at least 20");
  EXPECT_TRUE(train_scores(*of.engine, *of.file, text_of(500), {.window = 20, .ahead = 4}).ok());
  EXPECT_NE(refusal(500, {.window = 129, .ahead = 8}).find("context of 128"), std::string::npos);
}

}  // namespace
}  // namespace kvick::distil
