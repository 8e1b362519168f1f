#include "distil/distil.h"

#include <cmath>
#include <gtest/gtest.h>

#include "distil/layer_fit.h"
#include "distil/test_inputs.h"

#include "engine/core/test_engine.h"

namespace kvick::distil {
namespace {

struct Seen {
  std::vector<float> x, q, k;
};

TEST(Capture, VisitsEachLayerWithItsKeysItsQueriesAndWhatTheyAreMadeFrom) {
  const auto engine = engine::tiny_engine(128);
  const model::Config& config = engine->model().config();
  const auto text = text_of(40);
  Capture capture = Capture::make(*engine, 64).value();
  std::vector<Seen> layers;
  const auto visit = [&](const LayerActivations& layer) {
    EXPECT_EQ(layer.layer, layers.size());
    EXPECT_EQ(layer.tokens, 40u);
    layers.push_back({.x = {layer.x, layer.x + size_t{40} * config.dim},
                      .q = {layer.q, layer.q + size_t{40} * config.layers.front().q_floats()},
                      .k = {layer.k, layer.k + size_t{40} * config.layers.front().k_floats()}});
  };
  ASSERT_TRUE(capture.read(text, visit).ok());
  ASSERT_EQ(layers.size(), config.layer_count());
  // Fewer tokens have the same activations: these depend on earlier tokens only.
  std::vector<Seen> whole = std::move(layers);
  layers.clear();
  const auto again = [&](const LayerActivations& layer) {
    const Seen& before = whole[layer.layer];
    for (size_t i = 0; i < size_t{9} * config.dim; ++i) EXPECT_EQ(layer.x[i], before.x[i]);
    for (size_t i = 0; i < size_t{9} * config.layers.front().q_floats(); ++i)
      EXPECT_EQ(layer.q[i], before.q[i]);
    for (size_t i = 0; i < size_t{9} * config.layers.front().k_floats(); ++i)
      EXPECT_EQ(layer.k[i], before.k[i]);
  };
  ASSERT_TRUE(capture.read(std::span(text).first(9), again).ok());
  // The keys are those that a cache of the same tokens keeps.
  auto store = engine->make_store(engine::parse_kv_options("iterative", "f32").value()).value();
  const model::Slot slot = {.seq = store->open({}).seq, .past = 0, .tokens = text, .parents = {}};
  model::Executor executor = engine->make_executor();
  auto step = executor.run(*store, {.slots = {&slot, 1}}, {}).value();
  base::Arena scratch;
  kernels::View view;
  for (uint32_t layer = 0; layer < config.layer_count(); ++layer)
    for (uint32_t head = 0; head < config.layers.front().kv_heads; ++head) {
      step.rows().view({.slot = 0, .layer = layer, .head = head}, scratch, view);
      const auto* k = reinterpret_cast<const float*>(view.fresh.k);
      for (uint32_t t = 0; t < 40; ++t)
        for (uint32_t d = 0; d < config.layers.front().k_dim; ++d)
          EXPECT_EQ(k[t * config.layers.front().k_dim + d],
                    whole[layer].k[t * config.layers.front().k_floats() +
                                   head * config.layers.front().k_dim + d]);
    }
}

DistilOptions quick(kv::PredictorForm form) {
  return {.form = form,
          .rank = 4,
          .window = 64,
          .epochs = 2,
          .steps = 8,
          .queries = 8,
          .evaluate = {.budget = 0.25, .sinks = 1, .recent = 4, .queries = 8}};
}

TEST(Distil, GivesTheSameForTheSameSeedAndAnotherForAnother) {
  const auto engine = engine::tiny_engine(128);
  const auto text = text_of(200);
  for (const kv::PredictorForm form :
       {kv::PredictorForm::kRandom, kv::PredictorForm::kTrained, kv::PredictorForm::kHeads}) {
    DistilOptions options = quick(form);
    const auto bytes = [&] {
      const Distilled made = distil(*engine, text, options).value();
      EXPECT_EQ(made.tokens, 128u);
      EXPECT_EQ(made.held_out, 64u);
      EXPECT_EQ(made.layers.size(), engine->model().config().layer_count());
      return engine::predictor_bytes(file_of(made, engine->identity(), "text"));
    };
    const std::string first = bytes();
    EXPECT_EQ(bytes(), first);
    options.seed = 2;
    EXPECT_NE(bytes(), first);
  }
}

TEST(Distil, FindsAllRowsWhereTheRankIsThatOfTheKeys) {
  const auto engine = engine::tiny_engine(128);
  DistilOptions options = quick(kv::PredictorForm::kHeads);
  options.rank = engine->model().config().layers.front().k_dim;
  options.epochs = 3;
  options.steps = 32;
  options.evaluate.type = kernels::DType::kF16;
  const Quality mean = mean_of(distil(*engine, text_of(400), options).value().layers);
  EXPECT_GT(mean.recall, 0.8);
  EXPECT_GT(mean.mass, 0.98 * mean.best_mass);
  EXPECT_LE(mean.mass, mean.best_mass + 1e-6);
  EXPECT_LE(mean.layer_mass, mean.best_mass + 1e-6);
}

// Keys and queries are rotated products of a layer's input: a predictor with the same matrices and
// rotation finds all rows.
TEST(Evaluate, TurnsLowRankQueriesAndKeysByTheirTokens) {
  const kernels::Table& kernels = kernels::table(base::best_isa());
  constexpr uint32_t kTokens = 96, kDim = 4;
  kv::Predictor predictor;
  predictor.shape = {.layers = 1,
                     .heads = 2,
                     .kv_heads = 1,
                     .head_dim = kDim,
                     .dim = kDim,
                     .rank = kDim,
                     .form = kv::PredictorForm::kTrained};
  predictor.frequency = {0.4F, 0.03F};
  kv::PredictorLayer w = {.q = std::vector<float>(2 * kDim * kDim),
                          .k = std::vector<float>(kDim * kDim)};
  std::vector<float> x(kTokens * kDim), q(2 * x.size()), k(x.size());
  unsigned number = 1;
  for (std::vector<float>* part : {&w.q, &w.k, &x})
    for (float& e : *part) e = static_cast<float>((number = number * 69069 + 1) >> 16) / 16384 - 2;
  for (uint32_t t = 0; t < kTokens; ++t)
    for (uint32_t head = 0; head < 3; ++head) {
      const float* matrix = head < 2 ? w.q.data() + head * kDim * kDim : w.k.data();
      float low[kDim] = {};
      for (uint32_t i = 0; i < kDim * kDim; ++i)
        low[i / kDim] += matrix[i] * x[t * kDim + i % kDim];
      float* const to = head < 2 ? &q[(t * 2 + head) * kDim] : &k[t * kDim];
      for (uint32_t i = 0; i < 2; ++i) {
        const float angle = predictor.frequency[i] * static_cast<float>(t);
        to[i] = low[i] * std::cos(angle) - low[i + 2] * std::sin(angle);
        to[i + 2] = low[i] * std::sin(angle) + low[i + 2] * std::cos(angle);
      }
    }
  for (float& e : w.q) e /= std::sqrt(float{kDim});
  predictor.layers = {w};
  const LayerActivations layer = {
      .layer = 0, .tokens = kTokens, .x = x.data(), .q = q.data(), .k = k.data()};
  const EvaluateOptions options = {
      .budget = 0.25, .sinks = 1, .recent = 4, .queries = 8, .type = kernels::DType::kF16};
  const Quality knows = evaluate(predictor, layer, options, kernels);
  EXPECT_LT(knows.mse, 1e-2);
  EXPECT_GT(knows.mass, 0.999 * knows.best_mass);
  predictor.frequency.clear();
  EXPECT_GT(evaluate(predictor, layer, options, kernels).mse, 1);
}

// Doubling the queries and doubling the scale give the same scores, to the bit.
TEST(LayerFit, FitsScoresOfTheLayersScale) {
  constexpr uint32_t kTokens = 24, kDim = 4;
  const kernels::Table& kernels = kernels::table(base::best_isa());
  base::ThreadPool pool(1);
  kv::Predictor start;
  start.shape = {.layers = 1,
                 .heads = 2,
                 .kv_heads = 1,
                 .head_dim = kDim,
                 .dim = kDim,
                 .rank = 2,
                 .form = kv::PredictorForm::kHeads};
  std::vector<float> q(kTokens * 2 * kDim), k(kTokens * kDim);
  unsigned number = 1;
  for (std::vector<float>* part : {&q, &k})
    for (float& e : *part) e = static_cast<float>((number = number * 69069 + 1) >> 16) / 16384 - 2;
  std::vector<float> twice = q;
  for (float& e : twice) e *= 2;
  const LayerActivations usual = {.layer = 0, .tokens = kTokens, .q = twice.data(), .k = k.data()};
  const LayerActivations scaled = {
      .layer = 0, .tokens = kTokens, .scale = 1, .q = q.data(), .k = k.data()};  // usual: 1/2
  const auto fitted = [&](const LayerActivations& layer) {
    LayerFit fit(start);
    fit.train(layer, {.count = 8, .queries = 8, .rate = 0.02F, .seed = 1}, pool, kernels);
    kv::Predictor made = start;
    made.layers = {fit.result(layer, kernels)};
    return made;
  };
  const kv::Predictor a = fitted(usual), b = fitted(scaled);
  EXPECT_EQ(b.layers[0].k, a.layers[0].k);
  for (size_t i = 0; i < a.layers[0].q.size(); ++i)
    EXPECT_EQ(b.layers[0].q[i], 2 * a.layers[0].q[i]) << i;
  const EvaluateOptions options = {
      .budget = 0.25, .sinks = 1, .recent = 4, .queries = 8, .type = kernels::DType::kF16};
  EXPECT_EQ(evaluate(b, scaled, options, kernels).mse, evaluate(a, usual, options, kernels).mse);
}

TEST(Distil, TurnsPredictionsFromInputsUnlessToldOtherwise) {
  const auto engine = engine::tiny_engine(128);
  const auto text = text_of(200);
  const std::vector<double>& own = engine->model().config().rope_of(0).frequency;
  ASSERT_EQ(own.size(), 8u);
  for (const kv::PredictorForm form : {kv::PredictorForm::kRandom, kv::PredictorForm::kTrained}) {
    DistilOptions options = quick(form);
    EXPECT_EQ(distil(*engine, text, options).value().predictor.frequency,
              (std::vector<float>{static_cast<float>(own[2]), static_cast<float>(own[6])}));
    options.position = Position::kNone;
    EXPECT_TRUE(distil(*engine, text, options).value().predictor.frequency.empty());
    options.position = Position::kDefault;
    options.rank = 3;
    EXPECT_TRUE(distil(*engine, text, options).value().predictor.frequency.empty());
  }
  EXPECT_TRUE(
      distil(*engine, text, quick(kv::PredictorForm::kHeads)).value().predictor.frequency.empty());
}

TEST(Distil, ReportsItsProgressInTokens) {
  const auto engine = engine::tiny_engine(128);
  DistilOptions options = quick(kv::PredictorForm::kHeads);
  std::vector<uint64_t> done;
  options.progress = [&](uint64_t tokens, uint64_t total) {
    done.push_back(tokens);
    EXPECT_EQ(total, 2 * 128u);
  };
  ASSERT_TRUE(distil(*engine, text_of(200), options).ok());
  EXPECT_EQ(done, (std::vector<uint64_t>{64, 128, 192, 256}));
}

TEST(Distil, RefusesWhatCannotBeLearntFrom) {
  const auto engine = engine::tiny_engine(128);
  const auto refusal = [&](size_t tokens, const DistilOptions& options) {
    const auto made = distil(*engine, text_of(tokens), options);
    return made.ok() ? "" : made.error().message;
  };
  const DistilOptions good = quick(kv::PredictorForm::kHeads);
  EXPECT_EQ(
      refusal(127, good),
      "there are 127 tokens of text and learning needs two windows of 64: give a longer text, "
      "more --tokens or a shorter --window");
  DistilOptions bad = good;
  bad.window = 129;
  EXPECT_NE(refusal(400, bad).find("the model's context of 128"), std::string::npos);
  bad = good;
  bad.rank = 17;
  EXPECT_NE(refusal(400, bad).find("a rank of 17, but keys have 16 values"), std::string::npos);
  bad = good;
  bad.rate = std::nanf("");
  EXPECT_NE(refusal(400, bad).find("learning rate"), std::string::npos);
  bad = good;
  bad.position = Position::kRotary;
  EXPECT_EQ(refusal(400, bad),
            "rotary position is for predictions from a layer's input, not for the form heads, "
            "whose keys have it already: leave it out");
  bad = quick(kv::PredictorForm::kTrained);
  bad.position = Position::kRotary;
  bad.rank = 3;
  EXPECT_EQ(refusal(400, bad),
            "rotary position rotates pairs of values, and a rank of 3 is odd: give an even one");
  bad = good;
  bad.epochs = 0;
  EXPECT_NE(refusal(400, bad).find("at least one epoch"), std::string::npos);
}

}  // namespace
}  // namespace kvick::distil
