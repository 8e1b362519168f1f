#include "distil/kvzap.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

#include "distil/evaluated_file.h"
#include "distil/ridge.h"

namespace kvick::distil {
namespace {

using base::fail;
using base::Result;

constexpr double kPenalty = 1e-4;
constexpr float kLeastUse = 1e-9F;  // added to a use before its logarithm is taken
// The first rows get most attention whatever they contain, and are always kept: training skips
// them.
constexpr uint32_t kFirst = 8;

// The rows that training uses. The last ones have too few later queries to know their use.
struct Counted {
  uint32_t first = 0, end = 0;
};
Counted counted(uint32_t tokens, uint32_t ahead) {
  return {.first = kFirst, .end = tokens - ahead - tokens / 8};
}

class Run {
 public:
  Run(engine::Engine& engine, Capture capture, const KvzapOptions& options, kv::Predictor start)
      : engine_(engine),
        capture_(std::move(capture)),
        options_(options),
        predictor_(std::move(start)) {}

  base::Status<> read_outputs(const io::ModelFile& weights) {
    for (uint32_t layer = 0; layer < shape().layers; ++layer) {
      const std::string name = fmt::format("blk.{}.attn_output.weight", layer);
      const io::Tensor* const tensor = weights.find(name);
      const model::LayerConfig& heads = this->heads();
      const std::vector<uint64_t> wanted = {shape().dim, uint64_t{heads.heads} * heads.v_dim};
      if (tensor == nullptr || tensor->shape != wanted)
        return fail(
            "{}: {} is missing, or not {} x {}: kvzap needs the matrix that values are multiplied "
            "with",
            weights.path(), name, wanted[0], wanted[1]);
      std::vector<float> rows(tensor->elements());
      tensor->read_floats(rows.data());
      squares_.push_back(output_squares(rows, heads, engine_.kernels()));
    }
    return base::Done{};
  }

  base::Status<> fit(std::span<const engine::Token> text) {
    const uint32_t layers = shape().layers;
    const uint64_t bytes = Ridge::bytes(shape().dim, shape().kv_heads);
    const auto together =
        static_cast<uint32_t>(std::clamp<uint64_t>(options_.memory / bytes, 1, layers));
    const uint64_t passes = (layers + together - 1) / together;
    const uint64_t windows = text.size() / options_.window;
    predictor_.layers.resize(layers);
    for (uint32_t first = 0; first < layers; first += together) {
      const uint32_t end = std::min(layers, first + together);
      std::vector<Ridge> sums(end - first, Ridge(shape().dim, shape().kv_heads));
      bool finite = true;
      const auto visit = [&](const LayerActivations& layer) {
        if (layer.layer >= first && layer.layer < end)
          finite &= add(layer, sums[layer.layer - first]);
      };
      for (uint64_t i = 0; i < windows; ++i) {
        KVICK_TRY_VOID(capture_.read(text.subspan(i * options_.window, options_.window), visit));
        if (options_.progress)
          options_.progress((first / together * windows + i + 1) * options_.window,
                            passes * windows * options_.window);
      }
      if (!finite) return fail("activations are not finite numbers: nothing can be learnt of them");
      engine_.pool().parallel_for(sums.size(), 1, [&](size_t a, size_t b, unsigned) {
        for (size_t i = a; i < b; ++i) predictor_.layers[first + i].k = sums[i].solve(kPenalty);
      });
    }
    predictor_.layers = engine::rounded(predictor_);
    return base::Done{};
  }

  Result<std::vector<ScoreQuality>> judge(std::span<const engine::Token> held_out) {
    std::vector<ScoreQuality> layers;
    KVICK_TRY_VOID(capture_.read(
        held_out, [&](const LayerActivations& layer) { layers.push_back(judge(layer)); }));
    return layers;
  }

  kv::Predictor& predictor() { return predictor_; }

 private:
  const kv::PredictorShape& shape() const { return predictor_.shape; }
  // The numbers of every layer, since all layers are alike.
  const model::LayerConfig& heads() const { return engine_.model().config().layers.front(); }

  std::vector<float> targets(const LayerActivations& layer) {
    std::vector<float> y = uses(layer, heads(), squares_[layer.layer], options_.ahead,
                                engine_.kernels(), engine_.pool());
    for (float& x : y) x = std::log(x + kLeastUse);
    return y;
  }

  // Returns false if activations or targets are not finite.
  bool add(const LayerActivations& layer, Ridge& sums) {
    const Counted rows = counted(layer.tokens, options_.ahead);
    const uint32_t dim = shape().dim, heads = shape().kv_heads;
    const std::vector<float> y = targets(layer);
    const auto finite = [](float x) { return std::isfinite(x); };
    if (!std::all_of(y.begin(), y.end(), finite) ||
        !std::all_of(layer.x, layer.x + size_t{layer.tokens} * dim, finite))
      return false;
    sums.add(engine_.kernels(), layer.x + size_t{rows.first} * dim, dim, &y[rows.first * heads],
             rows.end - rows.first);
    return true;
  }

  ScoreQuality judge(const LayerActivations& layer) {
    const Counted rows = counted(layer.tokens, options_.ahead);
    const uint32_t dim = shape().dim, heads = shape().kv_heads;
    const std::vector<float> all = targets(layer);
    const std::span<const float> truth =
        std::span(all).subspan(rows.first * heads, (rows.end - rows.first) * heads);
    std::vector<float> guess(truth.size());
    for (uint32_t t = rows.first; t < rows.end; ++t)
      predictor_.scores(layer.layer, layer.x + size_t{t} * dim, engine_.kernels(),
                        &guess[(t - rows.first) * heads]);
    return compare(guess, truth);
  }

  static ScoreQuality compare(std::span<const float> guess, std::span<const float> truth) {
    const auto n = static_cast<double>(truth.size());
    const double mean = std::accumulate(truth.begin(), truth.end(), 0.0) / n;
    ScoreQuality made;
    double variance = 0;
    for (size_t i = 0; i < truth.size(); ++i) {
      made.mse += std::pow(guess[i] - truth[i], 2) / n;
      variance += std::pow(truth[i] - mean, 2) / n;
    }
    made.explained = variance > 0 ? 1 - made.mse / variance : 1;
    const auto highest = [&](std::span<const float> by) {
      std::vector<uint32_t> order(by.size());
      std::iota(order.begin(), order.end(), 0U);
      const auto end = order.begin() + static_cast<ptrdiff_t>(order.size() / 4);
      std::nth_element(order.begin(), end, order.end(), [&](uint32_t a, uint32_t b) {
        return by[a] != by[b] ? by[a] > by[b] : a < b;
      });
      order.erase(end, order.end());
      std::sort(order.begin(), order.end());
      return order;
    };
    const std::vector<uint32_t> found = highest(guess), best = highest(truth);
    std::vector<uint32_t> both;
    std::set_intersection(found.begin(), found.end(), best.begin(), best.end(),
                          std::back_inserter(both));
    const auto use = [&](const std::vector<uint32_t>& rows) {
      double sum = 0;
      for (const uint32_t row : rows) sum += std::exp(double{truth[row]});
      return sum;
    };
    made.recall = static_cast<double>(both.size()) / static_cast<double>(best.size());
    made.mass = use(found) / use(best);
    return made;
  }

  engine::Engine& engine_;
  Capture capture_;
  const KvzapOptions& options_;
  kv::Predictor predictor_;
  std::vector<std::vector<float>> squares_;  // of each layer
};

}  // namespace

std::vector<float> output_squares(std::span<const float> rows, const model::LayerConfig& heads,
                                  const kernels::Table& kernels) {
  const size_t v = heads.v_dim, width = heads.heads * v;
  std::vector<float> squares(heads.heads * v * v);
  for (size_t row = 0; row < rows.size(); row += width)
    for (size_t head = 0; head < heads.heads; ++head) {
      const float* const w = rows.data() + row + head * v;
      for (size_t i = 0; i < v; ++i) kernels.axpy(&squares[(head * v + i) * v], w[i], w, v);
    }
  return squares;
}

std::vector<float> uses(const LayerActivations& layer, const model::LayerConfig& heads,
                        std::span<const float> squares, uint32_t ahead,
                        const kernels::Table& kernels, base::ThreadPool& pool) {
  const uint32_t tokens = layer.tokens, kv_heads = heads.kv_heads, group = heads.group();
  std::vector<float> all(size_t{tokens} * kv_heads);
  pool.parallel_for(kv_heads, 1, [&](size_t begin, size_t end, unsigned) {
    std::vector<float> scores(tokens), most(tokens);
    for (size_t head = begin; head < end; ++head) {
      const std::vector<float> columns =
          columns_of(layer.k + head * heads.k_dim, heads.k_floats(), heads.k_dim, tokens);
      const HeadWindow window = {.tokens = tokens,
                                 .group = group,
                                 .head_dim = heads.k_dim,
                                 .q = layer.q + head * group * heads.k_dim,
                                 .q_stride = heads.q_floats(),
                                 .columns = columns.data(),
                                 .scale = layer.scale};
      std::fill(most.begin(), most.end(), 0.0F);
      for (uint32_t i = ahead; i < tokens; ++i)
        for (uint32_t g = 0; g < group; ++g) {
          true_scores(window, i, g, kernels, scores.data());
          const float sum = kernels.exp_row(scores.data(), i + 1, 1);
          for (uint32_t j = 0; j + ahead <= i; ++j) most[j] = std::max(most[j], scores[j] / sum);
        }
      const size_t v_dim = heads.v_dim;
      for (uint32_t j = 0; j < tokens; ++j) {
        const float* const v = layer.v + j * heads.v_floats() + head * v_dim;
        float length = 0;
        for (uint32_t g = 0; g < group; ++g) {
          const float* const square = squares.data() + (head * group + g) * v_dim * v_dim;
          float sum = 0;
          for (size_t i = 0; i < v_dim; ++i)
            sum += v[i] * kernels.dot(square + i * v_dim, v, v_dim);
          length += std::sqrt(std::max(sum, 0.0F)) / static_cast<float>(group);
        }
        all[j * kv_heads + head] = most[j] * length;
      }
    }
  });
  return all;
}

namespace {

// Below this a window may have no row that is counted: see counted().
constexpr uint32_t kLeastWindow = 20;

// Advises longer windows only if the model's context allows them.
base::Status<> check_ahead(const engine::Engine& engine, const KvzapOptions& options) {
  if (options.window < kLeastWindow)
    return fail("windows of {} tokens are too short to learn from: give at least {}",
                options.window, kLeastWindow);
  const uint32_t quarter = options.window / 4;
  if (quarter > options.ahead) return base::Done{};
  const uint64_t longer = 4 * (uint64_t{options.ahead} + 1);
  const std::string advice = longer <= engine.model().config().context
                                 ? fmt::format("give windows of at least {} tokens, or ", longer)
                                 : "";
  return fail(
      "windows of {} tokens are too short to measure attention {} tokens later: {}count attention "
      "from at most {} tokens later (--ahead)",
      options.window, options.ahead, advice, quarter - 1);
}

}  // namespace

Result<Scores> train_scores(engine::Engine& engine, const io::ModelFile& weights,
                            std::span<const engine::Token> text, const KvzapOptions& options) {
  if (options.most != 0) text = text.first(std::min<size_t>(text.size(), options.most));
  KVICK_TRY_VOID(check_windows(engine, text.size(), options.window));
  KVICK_TRY_VOID(check_ahead(engine, options));
  kv::Predictor start;
  start.shape = shape_of(engine.model().config(), kv::PredictorForm::kScores, 1);
  KVICK_TRY(Capture capture, Capture::make(engine, options.window));
  Run run(engine, std::move(capture), options, std::move(start));
  KVICK_TRY_VOID(run.read_outputs(weights));
  const auto rest = text.first(text.size() - options.window);
  KVICK_TRY_VOID(run.fit(rest));
  Scores made = {.predictor = {},
                 .layers = {},
                 .tokens = rest.size() / options.window * options.window,
                 .held_out = options.window};
  KVICK_TRY(made.layers, run.judge(text.last(options.window)));
  made.predictor = std::move(run.predictor());
  return made;
}

engine::PredictorFile file_of(const Scores& made, const engine::ModelIdentity& model,
                              const std::string& text) {
  return evaluated_file(made, model, text);
}

}  // namespace kvick::distil
