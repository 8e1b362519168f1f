// Compares principal components with their definition.

#include "distil/pca.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "distil/test_inputs.h"

#include "engine/core/test_engine.h"

namespace kvick::distil {
namespace {

TEST(Eigenvectors, SolveASymmetricMatrixAndAreOrthogonal) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const uint32_t n : {1u, 2u, 7u, 64u}) {
    std::vector<double> a(size_t{n} * n), values;
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t j = 0; j <= i; ++j) a[i * n + j] = a[j * n + i] = normal(random);
    const std::vector<double> v = eigenvectors(a, n, values);
    for (uint32_t r = 0; r < n; ++r) {
      if (r > 0) {
        EXPECT_GE(values[r - 1], values[r]);
      }
      for (uint32_t i = 0; i < n; ++i) {
        double product = 0;
        for (uint32_t j = 0; j < n; ++j) product += a[i * n + j] * v[r * n + j];
        EXPECT_NEAR(product, values[r] * v[r * n + i], 1e-9);
      }
      for (uint32_t s = 0; s <= r; ++s) {
        double product = 0;
        for (uint32_t j = 0; j < n; ++j) product += v[r * n + j] * v[s * n + j];
        EXPECT_NEAR(product, r == s ? 1 : 0, 1e-10);
      }
    }
  }
}

TEST(PrincipalComponents, WithAllOfThemScoresAreExact) {
  const auto engine = engine::tiny_engine(128);
  const uint32_t dims = engine->model().config().layers.front().k_dim;
  PcaOptions options = {.rank = dims, .window = 64};
  for (const bool rotated : {true, false}) {
    options.rotated = rotated;
    const Components found = principal_components(*engine, text_of(200), options).value();
    for (const double explained : found.explained) EXPECT_NEAR(explained, 1, 1e-9);
    // The difference comes from rounding components to codes and keys to f16.
    for (const Quality& layer : found.made.layers) EXPECT_GT(layer.mass, layer.best_mass - 0.01);
  }
}

TEST(PrincipalComponents, GiveScoresOfTheModelsOwnScale) {
  tools::Spec spec = model::tiny_spec(tools::Arch::kLlama);
  spec.context = 128;
  constexpr float kScale = 0.0625F;  // a quarter of the usual one
  spec.features.keys = {{"attention.scale", kScale}};
  const auto engine = engine::engine_of(spec);
  ASSERT_EQ(engine->model().config().layers.back().scale, kScale);
  const Components found =
      principal_components(*engine, text_of(200), {.rank = 4, .window = 64}).value();
  const kv::PredictorShape& shape = found.made.predictor.shape;
  const size_t floats = size_t{shape.rank} * shape.head_dim;
  for (const kv::PredictorLayer& layer : found.made.predictor.layers)
    for (size_t head = 0; head < shape.heads; ++head)
      for (size_t i = 0; i < floats; ++i)  // both have been rounded to codes
        EXPECT_NEAR(layer.q[head * floats + i] / kScale, layer.k[head / shape.group() * floats + i],
                    0.02);
}

TEST(PrincipalComponents, FewerExplainLessAndNoOthersWouldExplainMore) {
  const auto engine = engine::tiny_engine(128);
  PcaOptions options = {.window = 64};
  double before = 0;
  for (const uint32_t rank : {1u, 3u, 8u}) {
    options.rank = rank;
    const Components found = principal_components(*engine, text_of(200), options).value();
    EXPECT_GT(found.explained[0], before);
    EXPECT_GE(found.explained[0] + 1e-9,
              rank / double{static_cast<double>(engine->model().config().layers.front().k_dim)});
    before = found.explained[0];
  }
}

TEST(PrincipalComponents, DoNotDependOnTheNumberOfThreads) {
  const auto text = text_of(150);
  const PcaOptions options = {.rank = 4, .window = 50};
  const auto one = engine::tiny_engine(128);
  const Components a = principal_components(*one, text, options).value();
  const Components b = principal_components(*one, text, options).value();
  for (size_t layer = 0; layer < a.made.predictor.layers.size(); ++layer)
    EXPECT_EQ(a.made.predictor.layers[layer].k, b.made.predictor.layers[layer].k);
}

TEST(PrincipalComponents, SayWhatIsWrong) {
  const auto engine = engine::tiny_engine(128);
  const auto refusal = [&](size_t tokens, const PcaOptions& options) {
    return principal_components(*engine, text_of(tokens), options).error().message;
  };
  EXPECT_NE(refusal(100, {.window = 64}).find("needs two windows of 64"), std::string::npos);
  EXPECT_NE(refusal(500, {.rank = 999, .window = 64}).find("999 components"), std::string::npos);
  EXPECT_NE(refusal(500, {.window = 129}).find("context of 128"), std::string::npos);
}

}  // namespace
}  // namespace kvick::distil
