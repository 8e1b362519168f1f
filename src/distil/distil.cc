#include "distil/distil.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "distil/evaluated_file.h"
#include "distil/layer_fit.h"

#include "engine/options/layer_options.h"

namespace kvick::distil {
namespace {

using base::fail;
using base::Result;

// Adam moves every weight by about the rate in one step, so rows with more inputs move further:
// 0.02 is best for 64 inputs, and 576 inputs need a tenth of that.
constexpr float kRate = 0.02F, kRateOfMany = 0.002F;
constexpr uint32_t kMany = 256;

bool finite(const LayerActivations& layer, const kv::PredictorShape& shape) {
  const auto all = [&](const float* from, uint32_t width) {
    return std::all_of(from, from + size_t{layer.tokens} * width,
                       [](float x) { return std::isfinite(x); });
  };
  return all(layer.x, shape.dim) && all(layer.q, shape.heads * shape.head_dim) &&
         all(layer.k, shape.kv_heads * shape.head_dim);
}

class Run {
 public:
  Run(engine::Engine& engine, Capture capture, const DistilOptions& options, kv::Predictor start)
      : engine_(engine),
        capture_(std::move(capture)),
        options_(options),
        predictor_(std::move(start)),
        layers_(predictor_.shape.layers, LayerFit(predictor_)) {}

  base::Status<> train(std::span<const engine::Token> text) {
    const uint64_t windows = text.size() / options_.window, total = windows * options_.epochs;
    float rate = options_.rate;
    for (uint64_t turn = 0; turn < total; ++turn) {
      if (turn > 0 && turn % windows == 0) rate /= 10;
      KVICK_TRY_VOID(train_on(window(text, turn % windows), turn, rate));
      if (options_.progress)
        options_.progress((turn + 1) * options_.window, total * options_.window);
    }
    const auto finish = [&](const LayerActivations& layer) {
      predictor_.layers.push_back(layers_[layer.layer].result(layer, engine_.kernels()));
    };
    return capture_.read(window(text, 0), finish);
  }

  Result<std::vector<Quality>> judge(std::span<const engine::Token> held_out) {
    std::vector<Quality> layers;
    const auto visit = [&](const LayerActivations& layer) {
      layers.push_back(evaluate(predictor_, layer, options_.evaluate, engine_.kernels()));
    };
    KVICK_TRY_VOID(capture_.read(held_out, visit));
    return layers;
  }

  kv::Predictor& predictor() { return predictor_; }

 private:
  std::span<const engine::Token> window(std::span<const engine::Token> text, uint64_t i) const {
    return text.subspan(i * options_.window, options_.window);
  }

  base::Status<> train_on(std::span<const engine::Token> tokens, uint64_t turn, float rate) {
    std::optional<uint32_t> wrong;
    const auto visit = [&](const LayerActivations& layer) {
      if (!wrong && !finite(layer, predictor_.shape)) wrong = layer.layer;
      if (wrong) return;
      // Odd, so that all products modulo 2^64 differ, and with them the seeds.
      constexpr uint64_t kStride = 0x9e3779b97f4a7c15;
      const uint64_t number = turn * layers_.size() + layer.layer;
      layers_[layer.layer].train(layer,
                                 {.count = options_.steps,
                                  .queries = options_.queries,
                                  .loss = options_.loss,
                                  .rate = rate,
                                  .seed = options_.seed + number * kStride},
                                 engine_.pool(), engine_.kernels());
    };
    KVICK_TRY_VOID(capture_.read(tokens, visit));
    if (wrong)
      return fail("layer {} computes numbers that are not finite: nothing can be learnt from it",
                  *wrong);
    return base::Done{};
  }

  engine::Engine& engine_;
  Capture capture_;
  DistilOptions options_;
  kv::Predictor predictor_;
  std::vector<LayerFit> layers_;
};

void set_units(const LayerActivations& layer, const kv::PredictorShape& shape,
               const kernels::Table& kernels, kv::PredictorLayer& to) {
  const size_t d = shape.head_dim, width = shape.kv_heads * d;
  for (size_t row = 0; row < size_t{shape.kv_heads} * shape.rank; ++row) {
    const size_t head = row / shape.rank, r = row % shape.rank;
    const std::span<float> k(&to.k[row * d], d);
    const float unit = int8_unit(layer.k + head * d, width, layer.tokens, k, kernels);
    for (float& x : k) x *= unit;
    for (size_t g = 0; g < shape.group(); ++g) {
      float* q = &to.q[((head * shape.group() + g) * shape.rank + r) * d];
      for (size_t i = 0; i < d; ++i) q[i] /= unit;
    }
  }
}

// Returns as many of the model's frequencies as there are pairs of low-rank values, evenly spaced.
Result<std::vector<float>> frequencies(const model::Rope& rope, const kv::PredictorShape& shape,
                                       Position position) {
  const std::vector<double>& own = rope.frequency;
  const bool can = shape.from_input() && !own.empty() && shape.rank % 2 == 0;
  if (position == Position::kNone || (position == Position::kDefault && !can))
    return std::vector<float>();
  if (!shape.from_input())
    return fail(
        "rotary position is for predictions from a layer's input, not for the form heads, whose "
        "keys have it already: leave it out");
  if (own.empty()) return fail("the model has no rotary position: take position none");
  if (shape.rank % 2 != 0)
    return fail(
        "rotary position rotates pairs of values, and a rank of {} is odd: give an even one",
        shape.rank);
  const size_t pairs = shape.rank / 2;
  std::vector<float> picked;
  for (size_t i = 0; i < pairs; ++i)
    picked.push_back(static_cast<float>(own[(2 * i + 1) * own.size() / (2 * pairs)]));
  return picked;
}

Result<kv::Predictor> start_of(const model::Config& config, const DistilOptions& options) {
  kv::Predictor start;
  start.shape = shape_of(config, options.form, options.rank);
  start.shape.seed = options.seed;
  if (start.shape.rank > start.shape.head_dim)
    return fail("a rank of {}, but keys have {} values: give no more", start.shape.rank,
                start.shape.head_dim);
  KVICK_TRY(start.frequency, frequencies(config.rope_of(0), start.shape, options.position));
  if (options.form == kv::PredictorForm::kRandom)
    start.projection = {config.dim, start.shape.projected(), options.seed};
  return start;
}

base::Status<> check(const DistilOptions& options) {
  if (options.epochs == 0 || options.steps == 0 || options.queries == 0)
    return fail("distilling takes at least one epoch, step and query");
  if (!(options.rate >= 0 && options.rate <= 1))
    return fail("a learning rate of {}, but it must be from 0 to 1", options.rate);
  return base::Done{};
}

}  // namespace

base::Status<> check_windows(const engine::Engine& engine, size_t tokens, uint32_t window) {
  if (engine.model().trained_slots() != nullptr)
    return fail("a model with a memory of slots reads no rows that could be predicted");
  if (engine::layers_differ(engine.model().config()))
    return fail(
        "predictions need layers that are all alike, and this model's differ: take --kv-select "
        "quest, which needs no training");
  if (window < 2 || window > engine.model().config().context)
    return fail("windows of {} tokens, but they must be of 2 to the model's context of {}", window,
                engine.model().config().context);
  if (tokens < size_t{2} * window)
    return fail(
        "there are {} tokens of text and learning needs two windows of {}: give a longer text, "
        "more "
        "--tokens or a shorter --window",
        tokens, window);
  return base::Done{};
}

Result<Distilled> distil(engine::Engine& engine, std::span<const engine::Token> text,
                         const DistilOptions& given) {
  DistilOptions options = given;
  if (options.most != 0) text = text.first(std::min<size_t>(text.size(), options.most));
  KVICK_TRY_VOID(check_windows(engine, text.size(), options.window));
  KVICK_TRY_VOID(check(options));
  KVICK_TRY(kv::Predictor start, start_of(engine.model().config(), options));
  if (options.rate == 0) options.rate = start.shape.inputs() < kMany ? kRate : kRateOfMany;
  KVICK_TRY(Capture capture, Capture::make(engine, options.window));
  Run run(engine, std::move(capture), options, std::move(start));
  const std::span<const engine::Token> held_out = text.last(options.window);
  const std::span<const engine::Token> rest = text.first(text.size() - options.window);
  KVICK_TRY_VOID(run.train(rest));
  run.predictor().layers = engine::rounded(run.predictor());
  Distilled made = {.predictor = {},
                    .layers = {},
                    .tokens = rest.size() / options.window * options.window,
                    .held_out = options.window};
  KVICK_TRY(made.layers, run.judge(held_out));
  made.predictor = std::move(run.predictor());
  return made;
}

Result<Distilled> finish(engine::Engine& engine, kv::Predictor predictor,
                         std::span<const engine::Token> text, const DistilOptions& options) {
  KVICK_TRY_VOID(check_windows(engine, text.size(), options.window));
  const kv::PredictorShape& shape = predictor.shape;
  const model::Config& config = engine.model().config();
  const model::LayerConfig& layer = config.layers.front();
  if (shape.form != kv::PredictorForm::kHeads || shape.layers != config.layer_count() ||
      shape.heads != layer.heads || shape.kv_heads != layer.kv_heads ||
      shape.head_dim != layer.k_dim)
    return fail("the predictor is of another shape than the model");
  KVICK_TRY(Capture capture, Capture::make(engine, options.window));
  const auto to_int8 = [&](const LayerActivations& layer) {
    set_units(layer, shape, engine.kernels(), predictor.layers[layer.layer]);
  };
  KVICK_TRY_VOID(capture.read(text.first(options.window), to_int8));
  predictor.layers = engine::rounded(predictor);
  Run run(engine, std::move(capture), options, std::move(predictor));
  Distilled made = {.predictor = {}, .layers = {}, .tokens = 0, .held_out = options.window};
  KVICK_TRY(made.layers, run.judge(text.subspan(options.window, options.window)));
  made.predictor = std::move(run.predictor());
  return made;
}

kv::PredictorShape shape_of(const model::Config& config, kv::PredictorForm form, uint32_t rank) {
  const model::LayerConfig& layer = config.layers.front();
  return {.layers = config.layer_count(),
          .heads = layer.heads,
          .kv_heads = layer.kv_heads,
          .head_dim = layer.k_dim,
          .dim = config.dim,
          .rank = rank != 0 ? rank : std::max(1u, layer.k_dim / 4),
          .form = form};
}

engine::PredictorFile file_of(const Distilled& made, const engine::ModelIdentity& model,
                              const std::string& text) {
  return evaluated_file(made, model, text);
}

}  // namespace kvick::distil
