#include "distil/pca.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "distil/head_fit.h"

namespace kvick::distil {
namespace {

using base::fail;
using base::Result;

// Sums of one head's keys.
struct Moments {
  uint64_t count = 0;
  std::vector<double> sum;     // [head_dim]
  std::vector<double> square;  // [head_dim][head_dim], its lower half

  explicit Moments(uint32_t dims) : sum(dims), square(size_t{dims} * dims) {}

  void add(const float* key) {
    const size_t dims = sum.size();
    ++count;
    for (size_t i = 0; i < dims; ++i) {
      sum[i] += key[i];
      for (size_t j = 0; j <= i; ++j) square[i * dims + j] += double{key[i]} * key[j];
    }
  }
  std::vector<double> covariance() const {
    const size_t dims = sum.size();
    const auto n = static_cast<double>(count);
    std::vector<double> result(dims * dims);
    for (size_t i = 0; i < dims; ++i)
      for (size_t j = 0; j <= i; ++j)
        result[i * dims + j] = result[j * dims + i] =
            square[i * dims + j] / n - sum[i] / n * (sum[j] / n);
    return result;
  }
};

// Returns cosines and sines with which kernels::Table::rope undoes a key's rotary position. The
// factor Rope::magnitude stays: it changes no direction.
std::vector<float> turned_back(const model::Rope& rope, uint32_t position) {
  const size_t pairs = rope.frequency.size();
  std::vector<float> turn(2 * pairs);
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = -rope.frequency[i] * position;
    turn[i] = static_cast<float>(std::cos(angle));
    turn[pairs + i] = static_cast<float>(std::sin(angle));
  }
  return turn;
}

class Run {
 public:
  Run(engine::Engine& engine, Capture capture, const PcaOptions& options, kv::Predictor start)
      : engine_(engine),
        capture_(std::move(capture)),
        options_(options),
        predictor_(std::move(start)),
        moments_(size_t{shape().layers} * shape().kv_heads, Moments(shape().head_dim)) {}

  base::Status<> read(std::span<const engine::Token> text) {
    const uint64_t windows = text.size() / options_.window;
    bool finite = true;
    const auto visit = [&](const LayerActivations& layer) { finite &= add(layer); };
    for (uint64_t i = 0; i < windows; ++i) {
      KVICK_TRY_VOID(capture_.read(text.subspan(i * options_.window, options_.window), visit));
      if (options_.progress)
        options_.progress((i + 1) * options_.window, windows * options_.window);
    }
    if (!finite) return fail("the keys are not finite numbers: nothing can be learnt from them");
    return base::Done{};
  }

  // Sets the predictor's layers. Returns the share of each layer's variance that they explain.
  std::vector<double> solve() {
    const uint32_t dims = shape().head_dim, rank = shape().rank;
    predictor_.layers.resize(shape().layers);
    std::vector<double> kept(moments_.size()), all(moments_.size());
    for (kv::PredictorLayer& layer : predictor_.layers) {
      layer.q.resize(size_t{shape().heads} * rank * dims);
      layer.k.resize(size_t{shape().kv_heads} * rank * dims);
    }
    engine_.pool().parallel_for(moments_.size(), 1, [&](size_t begin, size_t end, unsigned) {
      for (size_t at = begin; at < end; ++at) {
        std::vector<double> values;
        const std::vector<double> basis = eigenvectors(moments_[at].covariance(), dims, values);
        for (double& value : values) value = std::max(value, 0.0);
        kept[at] = std::accumulate(values.begin(), values.begin() + rank, 0.0);
        all[at] = std::accumulate(values.begin(), values.end(), 0.0);
        set(at, basis);
      }
    });
    std::vector<double> explained;
    for (size_t at = 0; at < kept.size(); at += shape().kv_heads) {
      const auto sum = [&](const std::vector<double>& of) {
        const auto first = of.begin() + static_cast<ptrdiff_t>(at);
        return std::accumulate(first, first + shape().kv_heads, 0.0);
      };
      explained.push_back(sum(all) > 0 ? sum(kept) / sum(all) : 1);
    }
    return explained;
  }

  Result<std::vector<Quality>> judge(std::span<const engine::Token> held_out) {
    predictor_.layers = engine::rounded(predictor_);
    EvaluateOptions options = options_.evaluate;
    options.type = kernels::DType::kF16;
    std::vector<Quality> layers;
    const auto visit = [&](const LayerActivations& layer) {
      layers.push_back(evaluate(predictor_, layer, options, engine_.kernels()));
    };
    KVICK_TRY_VOID(capture_.read(held_out, visit));
    return layers;
  }

  kv::Predictor& predictor() { return predictor_; }

 private:
  const kv::PredictorShape& shape() const { return predictor_.shape; }

  // Returns false if the keys are not finite.
  bool add(const LayerActivations& layer) {
    const uint32_t heads = shape().kv_heads, dims = shape().head_dim;
    const model::Rope& rope = engine_.model().config().rope_of(0);
    const size_t floats = size_t{layer.tokens} * heads * dims;
    if (!std::all_of(layer.k, layer.k + floats, [](float x) { return std::isfinite(x); }))
      return false;
    engine_.pool().parallel_for(heads, 1, [&](size_t begin, size_t end, unsigned) {
      std::vector<float> key(dims);
      for (size_t head = begin; head < end; ++head)
        for (uint32_t t = 0; t < layer.tokens; ++t) {
          std::copy_n(layer.k + (size_t{t} * heads + head) * dims, dims, key.begin());
          if (!options_.rotated)
            engine_.kernels().rope(key.data(), turned_back(rope, t).data(), rope.dims,
                                   rope.interleaved);
          moments_[size_t{layer.layer} * heads + head].add(key.data());
        }
    });
    return true;
  }

  // Sets W_K of a head to the first rows of its basis, and W_Q to the same times the scale of
  // scores.
  void set(size_t at, const std::vector<double>& basis) {
    const size_t floats = size_t{shape().rank} * shape().head_dim;
    const size_t head = at % shape().kv_heads;
    const size_t layer_number = at / shape().kv_heads;
    kv::PredictorLayer& layer = predictor_.layers[layer_number];
    // The usual scale is computed in double: as a float it would round the queries differently.
    const float told = engine_.model().config().layers[layer_number].scale;
    const double scale = told == score_scale(0, shape().head_dim)
                             ? 1 / std::sqrt(static_cast<double>(shape().head_dim))
                             : double{told};
    for (size_t i = 0; i < floats; ++i) {
      layer.k[head * floats + i] = static_cast<float>(basis[i]);
      for (size_t g = 0; g < shape().group(); ++g)
        layer.q[(head * shape().group() + g) * floats + i] = static_cast<float>(basis[i] * scale);
    }
  }

  engine::Engine& engine_;
  Capture capture_;
  const PcaOptions& options_;
  kv::Predictor predictor_;
  std::vector<Moments> moments_;  // [layers * kv_heads]
};

Result<kv::Predictor> start_of(const engine::Engine& engine, const PcaOptions& options) {
  const model::Config& config = engine.model().config();
  kv::Predictor start;
  start.shape = shape_of(config, kv::PredictorForm::kComponents, options.rank);
  if (start.shape.rank > start.shape.head_dim)
    return fail("{} components, but keys have {} values: give no more", start.shape.rank,
                start.shape.head_dim);
  if (!options.rotated && config.rope_of(0).frequency.empty())
    return fail(
        "the model has no rotary position, so that plain keys are the cached ones: take rotated");
  return start;
}

}  // namespace

std::vector<double> eigenvectors(std::vector<double> a, uint32_t n, std::vector<double>& values) {
  std::vector<double> v(size_t{n} * n);
  for (uint32_t i = 0; i < n; ++i) v[size_t{i} * n + i] = 1;
  const auto at = [n](uint32_t i, uint32_t j) { return size_t{i} * n + j; };
  double all = 0;
  for (const double x : a) all += x * x;
  constexpr int kMostSweeps = 50;  // about ten are enough for any matrix
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double off = 0;
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t j = 0; j < i; ++j) off += a[at(i, j)] * a[at(i, j)];
    if (off <= 1e-24 * all) break;
    for (uint32_t p = 0; p < n; ++p)
      for (uint32_t q = p + 1; q < n; ++q) {
        if (a[at(p, q)] == 0) continue;
        // Finds the rotation that makes a[p][q] zero.
        const double theta = (a[at(q, q)] - a[at(p, p)]) / (2 * a[at(p, q)]);
        const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0), s = t * c;
        const auto turn = [c, s](double& x, double& y) {
          const double old = x;
          x = c * old - s * y;
          y = s * old + c * y;
        };
        for (uint32_t k = 0; k < n; ++k) turn(a[at(k, p)], a[at(k, q)]);
        for (uint32_t k = 0; k < n; ++k) turn(a[at(p, k)], a[at(q, k)]);
        for (uint32_t k = 0; k < n; ++k) turn(v[at(p, k)], v[at(q, k)]);
      }
  }
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t i, uint32_t j) { return a[at(i, i)] > a[at(j, j)]; });
  std::vector<double> sorted;
  values.clear();
  for (const uint32_t i : order) {
    values.push_back(a[at(i, i)]);
    sorted.insert(sorted.end(), v.begin() + static_cast<ptrdiff_t>(at(i, 0)),
                  v.begin() + static_cast<ptrdiff_t>(at(i, 0) + n));
  }
  return sorted;
}

Result<Components> principal_components(engine::Engine& engine, std::span<const engine::Token> text,
                                        const PcaOptions& options) {
  if (options.most != 0) text = text.first(std::min<size_t>(text.size(), options.most));
  KVICK_TRY_VOID(check_windows(engine, text.size(), options.window));
  KVICK_TRY(kv::Predictor start, start_of(engine, options));
  KVICK_TRY(Capture capture, Capture::make(engine, options.window));
  Run run(engine, std::move(capture), options, std::move(start));
  const auto rest = text.first(text.size() - options.window);
  KVICK_TRY_VOID(run.read(rest));
  Components found;
  found.explained = run.solve();
  KVICK_TRY(found.made.layers, run.judge(text.last(options.window)));
  found.made.predictor = std::move(run.predictor());
  found.made.tokens = rest.size() / options.window * options.window;
  found.made.held_out = options.window;
  return found;
}

engine::PredictorFile file_of(const Components& found, const engine::ModelIdentity& model,
                              const std::string& text) {
  return file_of(found.made, model, text);
}

}  // namespace kvick::distil
