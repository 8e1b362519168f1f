// Compares the scores of heads with their definition.

#include "distil/duo.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "distil/test_inputs.h"

#include "engine/core/test_engine.h"

namespace kvick::distil {
namespace {

constexpr uint32_t kTokens = 40, kDim = 8, kValue = 6, kKvHeads = 2, kGroup = 2;

model::LayerConfig made_heads() { return layer_of(kKvHeads * kGroup, kKvHeads, kDim, kValue); }

struct Made {
  std::vector<float> q, k, v;
  LayerActivations layer(float scale) const {
    return {
        .layer = 0, .tokens = kTokens, .scale = scale, .q = q.data(), .k = k.data(), .v = v.data()};
  }
  // The output of a query head for a token, from the rows that `sees` allows.
  template <typename Sees>
  std::vector<double> output(uint32_t token, uint32_t head, float scale, const Sees& sees) const {
    const double factor = scale != 0 ? scale : 1 / std::sqrt(double{kDim});
    std::vector<double> out(kValue);
    double sum = 0;
    for (uint32_t row = 0; row <= token; ++row) {
      if (!sees(row)) continue;
      double dot = 0;
      for (uint32_t d = 0; d < kDim; ++d)
        dot += double{q[(token * kKvHeads * kGroup + head) * kDim + d]} *
               k[(row * kKvHeads + head / kGroup) * kDim + d];
      const double weight = std::exp(dot * factor);
      sum += weight;
      for (uint32_t d = 0; d < kValue; ++d)
        out[d] += weight * v[(row * kKvHeads + head / kGroup) * kValue + d];
    }
    for (double& x : out) x /= sum;
    return out;
  }
};

Made made_layer(uint32_t seed) {
  std::mt19937 random(seed);
  return {.q = normal_floats(random, size_t{kTokens} * kKvHeads * kGroup * kDim),
          .k = normal_floats(random, size_t{kTokens} * kKvHeads * kDim),
          .v = normal_floats(random, size_t{kTokens} * kKvHeads * kValue)};
}

double length(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

void check_changes(const NearRows& near, uint32_t first, float scale) {
  const Made made = made_layer(5);
  base::ThreadPool pool(2);
  const std::vector<OutputChange> found =
      changes(made.layer(scale), made_heads(), near, first, kernels::table(base::best_isa()), pool);
  ASSERT_EQ(found.size(), kKvHeads);
  for (uint32_t kv_head = 0; kv_head < kKvHeads; ++kv_head) {
    double square = 0, most = 0;
    for (uint32_t token = first; token < kTokens; ++token)
      for (uint32_t head = kv_head * kGroup; head < (kv_head + 1) * kGroup; ++head) {
        const std::vector<double> all =
            made.output(token, head, scale, [](uint32_t) { return true; });
        const std::vector<double> some = made.output(token, head, scale, [&](uint32_t row) {
          return row < near.sinks || row + near.recent > token;
        });
        std::vector<double> difference(kValue);
        for (uint32_t d = 0; d < kValue; ++d) difference[d] = all[d] - some[d];
        square += std::pow(length(difference), 2);
        most += std::pow(length(all) + length(some), 2);
      }
    EXPECT_NEAR(found[kv_head].square, square, 1e-4 * square + 1e-9);
    EXPECT_NEAR(found[kv_head].most, most, 1e-4 * most);
    EXPECT_NEAR(found[kv_head].score(), std::sqrt(square / most), 1e-4);
    EXPECT_LE(found[kv_head].score(), 1);
  }
}

TEST(Changes, AreDistancesOfOutputsRelativeToTheirLengths) {
  check_changes({.sinks = 3, .recent = 5}, 20, 0);
  check_changes({.sinks = 3, .recent = 5}, 0, 0.2F);
  check_changes({.sinks = 0, .recent = 1}, 30, 0);
}

TEST(Changes, AreNoneIfAllRowsAreNear) {
  const Made made = made_layer(6);
  base::ThreadPool pool(1);
  for (const OutputChange& one :
       changes(made.layer(0), made_heads(), {.sinks = 4, .recent = kTokens - 4}, 10,
               kernels::table(base::best_isa()), pool))
    EXPECT_LT(one.score(), 1e-6);
}

// A head that finds a distant row, and none that looks like its query nearby, gets a score near 1
// even if the weights of the near rows are too small for floats.
TEST(Changes, AreLargeIfAllAttentionIsFarAway) {
  Made made = made_layer(7);
  for (uint32_t row = 0; row < kTokens; ++row)
    for (uint32_t d = 0; d < kDim; ++d) {
      made.k[row * kKvHeads * kDim + d] = row == 10 ? 30 : -30;  // of KV head 0
      for (uint32_t head = 0; head < kGroup; ++head)
        made.q[(row * kKvHeads * kGroup + head) * kDim + d] = 1;
    }
  for (uint32_t row = 0; row < kTokens; ++row)
    for (uint32_t d = 0; d < kValue; ++d) made.v[row * kKvHeads * kValue + d] = row == 10 ? 1 : -1;
  base::ThreadPool pool(1);
  const std::vector<OutputChange> found =
      changes(made.layer(0), made_heads(), {.sinks = 2, .recent = 4}, 30,
              kernels::table(base::best_isa()), pool);
  EXPECT_NEAR(found[0].score(), 1, 1e-5);
  EXPECT_LT(found[1].score(), 0.999);
}

TEST(Repeated, SequencesEndWithTheirFirstEighthAndDivideTheText) {
  std::vector<engine::Token> text(100);
  std::iota(text.begin(), text.end(), 0);
  const auto tokens = [](std::initializer_list<std::pair<int, int>> ranges) {
    std::vector<engine::Token> all;
    for (const auto& [first, end] : ranges)
      for (int i = first; i < end; ++i) all.push_back(static_cast<engine::Token>(i));
    return all;
  };
  EXPECT_EQ(repeated(text, 20, 0), tokens({{0, 18}, {0, 2}}));
  EXPECT_EQ(repeated(text, 20, 4), tokens({{72, 90}, {72, 74}}));
}

TEST(MeasureHeads, ScoresTheOutputsOfRepeatedPassages) {
  const auto engine = engine::tiny_engine(256);
  const std::vector<engine::Token> text = text_of(500);
  const DuoOptions options = {.window = 64, .near = {.sinks = 2, .recent = 12}};
  const HeadScores made = measure_heads(*engine, text, options).value();
  EXPECT_EQ(made.sequences, 8u);
  EXPECT_EQ(made.tokens, 8u * 56);
  EXPECT_GE(made.agreement, 0);
  EXPECT_LE(made.agreement, 1);
  const kv::PredictorShape& shape = made.predictor.shape;
  EXPECT_EQ(shape.form, kv::PredictorForm::kRetrieval);
  const model::Config& config = engine->model().config();
  ASSERT_EQ(made.predictor.layers.size(), config.layer_count());
  // The same, summed here.
  std::vector<std::vector<OutputChange>> sums(shape.layers,
                                              std::vector<OutputChange>(shape.kv_heads));
  Capture capture = Capture::make(*engine, 64).value();
  for (uint64_t i = 0; i < 8; ++i) {
    const auto visit = [&](const LayerActivations& layer) {
      const std::vector<OutputChange> some = changes(layer, config.layers.front(), options.near, 56,
                                                     engine->kernels(), engine->pool());
      for (size_t head = 0; head < some.size(); ++head) sums[layer.layer][head].add(some[head]);
    };
    ASSERT_TRUE(capture.read(repeated(text, 64, i), visit).ok());
  }
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    ASSERT_EQ(made.predictor.layers[layer].k.size(), shape.kv_heads);
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      const float score = made.predictor.layers[layer].k[head];
      EXPECT_NEAR(score, sums[layer][head].score(), 1e-6);
      EXPECT_GT(score, 0);
      EXPECT_LE(score, 1);
    }
  }
  // Its file is read again for this model.
  const std::string bytes = engine::predictor_bytes(file_of(made, engine->identity(), "a text"));
  const engine::PredictorFile read =
      engine::parse_predictor(std::as_bytes(std::span(bytes))).value();
  EXPECT_EQ(read.model, engine->identity());
  EXPECT_EQ(read.tokens, made.tokens);
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    EXPECT_EQ(read.predictor.layers[layer].k, made.predictor.layers[layer].k);
}

TEST(MeasureHeads, SaysWhatIsWrong) {
  const auto engine = engine::tiny_engine(128);
  const auto refusal = [&](size_t tokens, const DuoOptions& options) {
    return measure_heads(*engine, text_of(tokens), options).error().message;
  };
  EXPECT_NE(refusal(100, {.window = 64}).find("needs two windows of 64"), std::string::npos);
  EXPECT_NE(refusal(500, {.window = 64, .most = 100}).find("needs two windows of 64"),
            std::string::npos);
  EXPECT_NE(refusal(500, {.window = 129}).find("context of 128"), std::string::npos);
  EXPECT_EQ(refusal(500, {.window = 15}),
            "windows of 15 tokens are too short to repeat a passage: give at least 16");
  EXPECT_EQ(refusal(500, {.window = 64, .near = {.sinks = 2, .recent = 49}}),
            "windows of 64 tokens are too short: the copies of a passage are 48 tokens apart, "
            "which 49 newest rows would cover: give longer windows, or at most --recent 48");
  EXPECT_EQ(refusal(500, {.window = 64, .near = {.sinks = 5, .recent = 48}}),
            "windows of 64 tokens are too short: 5 sinks would cover more than half of a passage "
            "of 8 tokens: give longer windows, or at most --sinks 4");
  EXPECT_EQ(refusal(500, {.window = 64, .near = {.sinks = 2, .recent = 0}}),
            "a token always sees its own row: give --recent 1 or more");
  EXPECT_TRUE(
      measure_heads(*engine, text_of(500), {.window = 64, .near = {.sinks = 4, .recent = 48}})
          .ok());
}

}  // namespace
}  // namespace kvick::distil
