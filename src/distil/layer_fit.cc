#include "distil/layer_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/check.h"

namespace kvick::distil {
namespace {

constexpr float kLeastSize = 1e-6F;
// Random start weights, added to start_with_largest(), have deviation kStart / sqrt(inputs).
constexpr float kStart = 0.5F;

std::vector<float> root_mean_squares(const float* rows, size_t width, size_t n) {
  std::vector<double> sum(width);
  for (size_t i = 0; i < n; ++i)
    for (size_t d = 0; d < width; ++d) sum[d] += double{rows[i * width + d]} * rows[i * width + d];
  std::vector<float> size(width);
  for (size_t d = 0; d < width; ++d)
    size[d] = std::max(static_cast<float>(std::sqrt(sum[d] / static_cast<double>(n))), kLeastSize);
  return size;
}

void divide(std::vector<float>& rows, const std::vector<float>& size) {
  for (size_t first = 0; first < rows.size(); first += size.size())
    for (size_t d = 0; d < size.size(); ++d) rows[first + d] /= size[d];
}

// Returns the factor that brings all but one in a thousand of these magnitudes within 127.
float unit_of(std::vector<float>& sizes) {
  // With NaN there is no strict weak order, and std::nth_element may leave its range.
  for (float& size : sizes)
    if (std::isnan(size)) size = 0;
  const auto most = sizes.end() - 1 - static_cast<ptrdiff_t>(sizes.size() / 1000);
  std::nth_element(sizes.begin(), most, sizes.end());
  return 127 / std::max(*most, kLeastSize);
}

}  // namespace

LayerFit::Inputs LayerFit::inputs_of(const LayerActivations& layer) const {
  Inputs inputs;
  const size_t tokens = layer.tokens;
  if (!start_.frequency.empty()) inputs.turns.resize(tokens * shape_.rank);
  for (uint32_t t = 0; t < layer.tokens && !inputs.turns.empty(); ++t)
    start_.turns(t, inputs.turns.data() + size_t{t} * shape_.rank);
  if (!shape_.from_input()) {
    inputs.a_stride = size_t{shape_.heads} * shape_.head_dim;
    inputs.b_stride = size_t{shape_.kv_heads} * shape_.head_dim;
    inputs.a.assign(layer.q, layer.q + tokens * inputs.a_stride);
    inputs.b.assign(layer.k, layer.k + tokens * inputs.b_stride);
    return inputs;
  }
  inputs.a_stride = inputs.b_stride = shape_.inputs();
  if (shape_.form == kv::PredictorForm::kTrained) {
    inputs.a.assign(layer.x, layer.x + tokens * shape_.dim);
    return inputs;
  }
  inputs.a.resize(tokens * inputs.a_stride);
  for (size_t t = 0; t < tokens; ++t)
    start_.projection.apply(layer.x + t * shape_.dim, inputs.a.data() + t * inputs.a_stride);
  return inputs;
}

void LayerFit::scale(Inputs& inputs) const {
  divide(inputs.a, a_size_);
  if (!inputs.b.empty()) divide(inputs.b, b_size_);
}

void LayerFit::start_with_largest(uint32_t head, float scale, std::vector<float>& q,
                                  std::vector<float>& k) const {
  const uint32_t n = shape_.inputs(), rank = shape_.rank, group = shape_.group();
  const float* k_size = b_size_.data() + b_first(head);
  const float* q_size = a_size_.data() + a_first(head * group);
  std::vector<float> product(n);  // what each element adds to a score, mean over the group
  for (uint32_t d = 0; d < n; ++d) {
    for (uint32_t g = 0; g < group; ++g) product[d] += q_size[size_t{g} * n + d];
    product[d] *= k_size[d] * scale / static_cast<float>(group);
  }
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return product[a] > product[b]; });
  for (uint32_t r = 0; r < rank; ++r) {
    const uint32_t d = order[r];
    const float root = std::sqrt(product[d]);  // W_Q and W_K each get an equal share
    k[size_t{r} * n + d] += root;
    for (uint32_t g = 0; g < group; ++g)
      q[(size_t{g} * rank + r) * n + d] += q_size[size_t{g} * n + d] * k_size[d] * scale / root;
  }
}

void LayerFit::start(uint64_t seed, float scale) {
  const uint32_t n = shape_.inputs();
  std::mt19937_64 random(seed);
  // Avoids std::normal_distribution, which differs between standard libraries.
  const float size = kStart * std::sqrt(12 / static_cast<float>(n));
  const auto fill = [&](std::vector<float>& w) {
    for (float& e : w) e = size * (static_cast<float>(random() >> 40) * 0x1p-24F - 0.5F);
  };
  for (uint32_t head = 0; head < shape_.kv_heads; ++head) {
    std::vector<float> q(size_t{shape_.group()} * shape_.rank * n), k(size_t{shape_.rank} * n);
    fill(q);
    fill(k);
    if (!shape_.from_input()) start_with_largest(head, scale, q, k);
    heads_.emplace_back(shape_.rank, std::move(q), std::move(k));
  }
}

void LayerFit::train_head(uint32_t head, const LayerActivations& layer, const Inputs& inputs,
                          const Steps& steps, const kernels::Table& kernels) {
  const uint32_t head_dim = shape_.head_dim, group = shape_.group();
  const std::vector<float> columns =
      columns_of(layer.k + size_t{head} * head_dim, size_t{shape_.kv_heads} * head_dim, head_dim,
                 layer.tokens);
  const HeadWindow window = {.tokens = layer.tokens,
                             .group = group,
                             .head_dim = head_dim,
                             .inputs = shape_.inputs(),
                             .q = layer.q + size_t{head} * group * head_dim,
                             .q_stride = size_t{shape_.heads} * head_dim,
                             .columns = columns.data(),
                             .a = inputs.a.data() + a_first(head * group),
                             .a_stride = inputs.a_stride,
                             .a_group = shape_.from_input() ? 0 : head_dim,
                             .b = inputs.of_keys() + b_first(head),
                             .b_stride = inputs.b_stride,
                             .turns = inputs.turns.empty() ? nullptr : inputs.turns.data(),
                             .scale = layer.scale};
  std::mt19937_64 random(steps.seed + head);
  std::vector<uint32_t> queries(steps.queries);
  for (uint32_t s = 0; s < steps.count; ++s) {
    for (uint32_t& i : queries) i = static_cast<uint32_t>(random() % layer.tokens);
    heads_[head].step(window, queries, steps.loss, steps.rate, kernels);
  }
}

void LayerFit::train(const LayerActivations& layer, const Steps& steps, base::ThreadPool& pool,
                     const kernels::Table& kernels) {
  Inputs inputs = inputs_of(layer);
  if (heads_.empty()) {
    a_size_ = root_mean_squares(inputs.a.data(), inputs.a_stride, layer.tokens);
    b_size_ = root_mean_squares(inputs.of_keys(), inputs.b_stride, layer.tokens);
    start(steps.seed, score_scale(layer.scale, shape_.head_dim));
  }
  scale(inputs);
  pool.parallel_for(shape_.kv_heads, 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t head = begin; head < end; ++head)
      train_head(static_cast<uint32_t>(head), layer, inputs, steps, kernels);
  });
}

float int8_unit(const float* inputs, size_t stride, uint32_t tokens, std::span<const float> row,
                const kernels::Table& kernels) {
  std::vector<float> sizes(tokens);
  for (uint32_t t = 0; t < tokens; ++t)
    sizes[t] =
        std::abs(kernels.dot(inputs + t * stride, row.data(), static_cast<uint32_t>(row.size())));
  return unit_of(sizes);
}

std::vector<float> LayerFit::units(uint32_t head, const Inputs& inputs, uint32_t tokens,
                                   const kernels::Table& kernels) const {
  const uint32_t n = shape_.inputs(), rank = shape_.rank, pairs = rank / 2;
  const float* const b = inputs.of_keys() + b_first(head);
  const float* const k = heads_[head].k().data();
  std::vector<float> units(rank);
  if (inputs.turns.empty()) {
    for (uint32_t r = 0; r < rank; ++r)
      units[r] = int8_unit(b, inputs.b_stride, tokens, {k + size_t{r} * n, n}, kernels);
    return units;
  }
  std::vector<std::vector<float>> sizes(pairs);
  std::vector<float> key(rank);
  for (size_t t = 0; t < tokens; ++t) {
    for (uint32_t r = 0; r < rank; ++r)
      key[r] = kernels.dot(b + t * inputs.b_stride, k + size_t{r} * n, n);
    kernels.rope(key.data(), inputs.turns.data() + t * rank, rank, false);
    for (uint32_t r = 0; r < rank; ++r) sizes[r % pairs].push_back(std::abs(key[r]));
  }
  for (uint32_t r = 0; r < pairs; ++r) units[r] = units[pairs + r] = unit_of(sizes[r]);
  return units;
}

kv::PredictorLayer LayerFit::result(const LayerActivations& layer,
                                    const kernels::Table& kernels) const {
  KVICK_CHECK(!heads_.empty(), "a layer that was never trained");
  Inputs inputs = inputs_of(layer);
  scale(inputs);
  const uint32_t n = shape_.inputs(), rank = shape_.rank, group = shape_.group();
  kv::PredictorLayer result;
  result.q.resize(size_t{shape_.heads} * rank * n);
  result.k.resize(size_t{shape_.kv_heads} * rank * n);
  std::vector<std::vector<float>> all_units;
  for (uint32_t head = 0; head < shape_.kv_heads; ++head)
    all_units.push_back(units(head, inputs, layer.tokens, kernels));
  for (uint32_t row = 0; row < shape_.kv_heads * rank; ++row) {
    const uint32_t head = row / rank, r = row % rank;
    const float* k = heads_[head].k().data() + size_t{r} * n;
    const float unit = all_units[head][r];
    for (uint32_t d = 0; d < n; ++d)
      result.k[size_t{row} * n + d] = k[d] * unit / b_size_[b_first(head) + d];
    for (uint32_t g = 0; g < group; ++g) {
      const uint32_t q_head = head * group + g;
      const float* q = heads_[head].q().data() + (size_t{g} * rank + r) * n;
      for (uint32_t d = 0; d < n; ++d)
        result.q[(size_t{q_head} * rank + r) * n + d] = q[d] / unit / a_size_[a_first(q_head) + d];
    }
  }
  return result;
}

}  // namespace kvick::distil
