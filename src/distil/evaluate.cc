#include "distil/evaluate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "distil/head_fit.h"

namespace kvick::distil {
namespace {

using Weights = std::vector<float>;  // of rows
using Choice = std::vector<char>;    // whether rows are read

Choice choose(const Weights& weights, const EvaluateOptions& options) {
  const auto n = static_cast<uint32_t>(weights.size());
  Choice read(n);
  std::vector<uint32_t> rest;
  for (uint32_t j = 0; j < n; ++j) {
    read[j] = j < options.sinks || j + options.recent >= n;
    if (!read[j]) rest.push_back(j);
  }
  const size_t always = n - rest.size();
  const auto budget = static_cast<size_t>(std::lround(options.budget * n));
  const size_t more = std::min(budget > always ? budget - always : 0, rest.size());
  // NaN is ordered last: without a strict weak order std::nth_element may leave its range.
  const auto heavier = [&](uint32_t a, uint32_t b) {
    return weights[a] > weights[b] || (std::isnan(weights[b]) && !std::isnan(weights[a]));
  };
  std::nth_element(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(more), rest.end(), heavier);
  for (size_t i = 0; i < more; ++i) read[rest[i]] = 1;
  return read;
}

double mass_of(const Choice& read, const Weights& weights) {
  double mass = 0;
  for (size_t j = 0; j < read.size(); ++j)
    if (read[j]) mass += weights[j];
  return mass;
}

double recall_of(const Choice& read, const Choice& best, const EvaluateOptions& options) {
  double found = 0, all = 0;
  for (size_t j = options.sinks; j + options.recent < read.size(); ++j)
    if (best[j]) ++all, found += read[j];
  return all > 0 ? found / all : 1;
}

// Returns the mean square of the differences, after subtracting their mean.
double centred_error(const Weights& guess, const Weights& truth) {
  double mean = 0, squares = 0;
  const auto n = static_cast<double>(guess.size());
  for (size_t j = 0; j < guess.size(); ++j) mean += (guess[j] - truth[j]) / n;
  for (size_t j = 0; j < guess.size(); ++j) squares += std::pow(guess[j] - truth[j] - mean, 2) / n;
  return squares;
}

// One layer of one sequence, with its low-rank keys as they are stored.
class Judge {
 public:
  Judge(const kv::Predictor& predictor, const LayerActivations& layer,
        const EvaluateOptions& options, const kernels::Table& kernels)
      : predictor_(predictor),
        shape_(predictor.shape),
        layer_(layer),
        options_(options),
        kernels_(kernels),
        projected_(shape_.projected()),
        turns_(shape_.rank) {
    make_low_rank_keys();
    for (uint32_t head = 0; head < shape_.kv_heads; ++head)
      keys_.push_back(columns_of(layer.k + size_t{head} * shape_.head_dim, k_width(),
                                 shape_.head_dim, layer.tokens));
  }

  // Adds the qualities of token i, which sees rows 0 to i, summed over KV heads.
  void add_token(uint32_t i, Quality& sum) {
    Weights layer_guess(i + 1);
    std::vector<Weights> truths;
    for (uint32_t head = 0; head < shape_.kv_heads; ++head) {
      Weights guess(i + 1), truth(i + 1);
      sum.mse += weigh(i, head, guess, truth);
      const Choice read = choose(guess, options_), best = choose(truth, options_);
      sum.mass += mass_of(read, truth);
      sum.best_mass += mass_of(best, truth);
      sum.recall += recall_of(read, best, options_);
      kernels_.axpy(layer_guess.data(), 1, guess.data(), guess.size());
      truths.push_back(std::move(truth));
    }
    const Choice read = choose(layer_guess, options_);
    for (const Weights& truth : truths) sum.layer_mass += mass_of(read, truth);
  }

 private:
  size_t q_width() const { return size_t{shape_.heads} * shape_.head_dim; }
  size_t k_width() const { return size_t{shape_.kv_heads} * shape_.head_dim; }

  void make_low_rank_keys() {
    const uint32_t low = shape_.projected();
    std::vector<float> rows(size_t{layer_.tokens} * low);
    std::vector<std::byte> stored(kernels::dtype_bytes(options_.type, low));
    for (uint32_t t = 0; t < layer_.tokens; ++t) {
      float* row = rows.data() + size_t{t} * low;
      predictor_.keys(layer_.layer, shape_.from_input() ? input(t) : layer_.k + t * k_width(),
                      kernels_, row);
      predictor_.turns(t, turns_.data());
      predictor_.turn(turns_.data(), shape_.kv_heads, kernels_, row);
      kernels::from_f32(options_.type, row, low, stored.data());
      kernels::to_f32(options_.type, stored.data(), low, row);
    }
    for (uint32_t head = 0; head < shape_.kv_heads; ++head)
      low_keys_.push_back(
          columns_of(rows.data() + size_t{head} * shape_.rank, low, shape_.rank, layer_.tokens));
  }

  const float* input(uint32_t token) {
    return predictor_.projected(layer_.x + size_t{token} * shape_.dim, projected_.data());
  }

  // Sets the predicted and true weights of the rows that token i sees; returns the scores' mse.
  double weigh(uint32_t i, uint32_t head, Weights& guess, Weights& truth) {
    const uint32_t group = shape_.group(), seen = i + 1;
    const HeadWindow window = {.tokens = layer_.tokens,
                               .group = group,
                               .head_dim = shape_.head_dim,
                               .q = layer_.q + size_t{head} * group * shape_.head_dim,
                               .q_stride = q_width(),
                               .columns = keys_[head].data(),
                               .scale = layer_.scale};
    std::vector<float> low(shape_.rank);
    predictor_.turns(i, turns_.data());
    double error = 0;
    for (uint32_t g = 0; g < group; ++g) {
      const uint32_t q_head = head * group + g;
      const float* from = shape_.from_input()
                              ? input(i)
                              : layer_.q + i * q_width() + size_t{q_head} * shape_.head_dim;
      predictor_.query(layer_.layer, q_head, from, kernels_, low.data());
      predictor_.turn(turns_.data(), 1, kernels_, low.data());
      Weights scores(seen), exact(seen);
      for (uint32_t r = 0; r < shape_.rank; ++r)
        kernels_.axpy(scores.data(), low[r], low_keys_[head].data() + size_t{r} * layer_.tokens,
                      seen);
      true_scores(window, i, g, kernels_, exact.data());
      error += centred_error(scores, exact) / group;
      for (const auto& [from_scores, to] : {std::pair{&scores, &guess}, {&exact, &truth}}) {
        const float sum = kernels_.exp_row(from_scores->data(), seen, 1);
        kernels_.axpy(to->data(), 1 / sum / static_cast<float>(group), from_scores->data(), seen);
      }
    }
    return error;
  }

  const kv::Predictor& predictor_;
  const kv::PredictorShape& shape_;
  const LayerActivations& layer_;
  const EvaluateOptions& options_;
  const kernels::Table& kernels_;
  std::vector<float> projected_, turns_;             // of one token
  std::vector<std::vector<float>> keys_, low_keys_;  // per KV head, as columns
};

}  // namespace

Quality mean_of(std::span<const Quality> parts) {
  Quality mean;
  for (const auto field :
       {&Quality::mse, &Quality::recall, &Quality::mass, &Quality::layer_mass, &Quality::best_mass})
    for (const Quality& part : parts)
      mean.*field += part.*field / static_cast<double>(parts.size());
  return mean;
}

Quality evaluate(const kv::Predictor& predictor, const LayerActivations& layer,
                 const EvaluateOptions& options, const kernels::Table& kernels) {
  Judge judge(predictor, layer, options, kernels);
  std::vector<Quality> tokens;
  for (uint32_t n = 0; n < options.queries; ++n) {
    Quality sum;
    judge.add_token(layer.tokens - 1 - n * (layer.tokens / 2) / options.queries, sum);
    for (const auto field : {&Quality::mse, &Quality::recall, &Quality::mass, &Quality::layer_mass,
                             &Quality::best_mass})
      sum.*field /= predictor.shape.kv_heads;
    tokens.push_back(sum);
  }
  return mean_of(tokens);
}

}  // namespace kvick::distil
