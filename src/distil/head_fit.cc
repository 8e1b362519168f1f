#include "distil/head_fit.h"

#include <algorithm>
#include <cmath>

namespace kvick::distil {
namespace {

constexpr float kFirstMoment = 0.9F, kSecondMoment = 0.99F, kTiny = 1e-8F;

// Replaces x by its softmax; returns the logarithm of the sum of the exponentials.
double softmax(std::span<float> x, const kernels::Table& kernels) {
  const float most = *std::max_element(x.begin(), x.end());
  const float sum = kernels.exp_row(x.data(), x.size(), 1);
  for (float& e : x) e /= sum;
  return most + std::log(sum);
}

// Replaces the predicted scores by the gradient of the loss with respect to them; returns the loss.
double error_of(std::span<float> scores, std::span<float> target, Loss loss,
                const kernels::Table& kernels) {
  const auto n = static_cast<float>(scores.size());
  if (loss == Loss::kDivergence) {
    double divergence = 0;
    std::vector<float> logits(scores.begin(), scores.end());
    const double total = softmax(scores, kernels);
    softmax(target, kernels);
    for (size_t j = 0; j < scores.size(); ++j) {
      if (target[j] > 0) divergence += target[j] * (std::log(target[j]) - (logits[j] - total));
      scores[j] -= target[j];
    }
    return divergence;
  }
  kernels.axpy(scores.data(), -1, target.data(), scores.size());
  if (loss == Loss::kCentred) {
    double sum = 0;
    for (const float e : scores) sum += e;
    const auto mean = static_cast<float>(sum / n);
    for (float& e : scores) e -= mean;
  }
  const float squares = kernels.dot(scores.data(), scores.data(), scores.size());
  for (float& e : scores) e *= 2 / n;
  return squares / n;
}

// Applies the inverse of kernels::Table::rope, which is also its gradient, to low, [rank], in
// place.
void turn_back(float* low, const float* cos_sin, uint32_t rank) {
  const uint32_t pairs = rank / 2;
  for (uint32_t i = 0; i < pairs; ++i) {
    const float a = low[i], b = low[pairs + i], c = cos_sin[i], s = cos_sin[pairs + i];
    low[i] = a * c + b * s;
    low[pairs + i] = b * c - a * s;
  }
}

}  // namespace

void Adam::step(std::span<float> x, std::span<const float> gradient, float rate) {
  ++steps_;
  const auto t = static_cast<float>(steps_);
  const float first = 1 - std::pow(kFirstMoment, t), second = 1 - std::pow(kSecondMoment, t);
  for (size_t i = 0; i < x.size(); ++i) {
    mean_[i] += (1 - kFirstMoment) * (gradient[i] - mean_[i]);
    square_[i] += (1 - kSecondMoment) * (gradient[i] * gradient[i] - square_[i]);
    x[i] -= rate * (mean_[i] / first) / (std::sqrt(square_[i] / second) + kTiny);
  }
}

std::vector<float> columns_of(const float* rows, size_t stride, uint32_t width, uint32_t tokens) {
  std::vector<float> columns(size_t{width} * tokens);
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t d = 0; d < width; ++d) columns[size_t{d} * tokens + t] = rows[t * stride + d];
  return columns;
}

float score_scale(float scale, uint32_t head_dim) {
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(head_dim));
}

void true_scores(const HeadWindow& window, uint32_t i, uint32_t g, const kernels::Table& kernels,
                 float* out) {
  const float* q = window.q + i * window.q_stride + size_t{g} * window.head_dim;
  const float scale = score_scale(window.scale, window.head_dim);
  std::fill_n(out, i + 1, 0.0F);
  for (uint32_t d = 0; d < window.head_dim; ++d)
    kernels.axpy(out, q[d] * scale, window.columns + size_t{d} * window.tokens, i + 1);
}

void HeadFit::project_keys(const HeadWindow& window, const kernels::Table& kernels) {
  keys_.resize(size_t{rank_} * window.tokens);
  std::vector<float> key(rank_);
  for (uint32_t j = 0; j < window.tokens; ++j) {
    for (uint32_t r = 0; r < rank_; ++r)
      key[r] = kernels.dot(window.b + j * window.b_stride, k_.data() + size_t{r} * window.inputs,
                           window.inputs);
    if (window.turns != nullptr)
      kernels.rope(key.data(), window.turns + size_t{j} * rank_, rank_, false);
    for (uint32_t r = 0; r < rank_; ++r) keys_[size_t{r} * window.tokens + j] = key[r];
  }
}

double HeadFit::add_query(const HeadWindow& window, uint32_t i, uint32_t g, Loss loss,
                          const kernels::Table& kernels) {
  const float* a = window.a + i * window.a_stride + g * window.a_group;
  const size_t matrix = size_t{rank_} * window.inputs;
  const uint32_t seen = i + 1;
  const float* const turn = window.turns != nullptr ? window.turns + size_t{i} * rank_ : nullptr;
  std::vector<float> projected(rank_), gradient(rank_);
  for (uint32_t r = 0; r < rank_; ++r)
    projected[r] =
        kernels.dot(a, q_.data() + g * matrix + size_t{r} * window.inputs, window.inputs);
  if (turn != nullptr) kernels.rope(projected.data(), turn, rank_, false);
  std::fill_n(scores_.begin(), seen, 0.0F);
  for (uint32_t r = 0; r < rank_; ++r)
    kernels.axpy(scores_.data(), projected[r], keys_.data() + size_t{r} * window.tokens, seen);
  true_scores(window, i, g, kernels, target_.data());
  const double loss_here =
      error_of(std::span(scores_).first(seen), std::span(target_).first(seen), loss, kernels);
  for (uint32_t r = 0; r < rank_; ++r) {
    const size_t row = size_t{r} * window.tokens;
    gradient[r] = kernels.dot(scores_.data(), keys_.data() + row, seen);
    kernels.axpy(keys_gradient_.data() + row, projected[r], scores_.data(), seen);
  }
  if (turn != nullptr) turn_back(gradient.data(), turn, rank_);
  for (uint32_t r = 0; r < rank_; ++r)
    kernels.axpy(q_gradient_.data() + g * matrix + size_t{r} * window.inputs, gradient[r], a,
                 window.inputs);
  return loss_here;
}

void HeadFit::gather_keys(const HeadWindow& window, const kernels::Table& kernels) {
  std::vector<float> gradient(rank_);
  for (uint32_t j = 0; j < window.tokens; ++j) {
    for (uint32_t r = 0; r < rank_; ++r)
      gradient[r] = keys_gradient_[size_t{r} * window.tokens + j];
    if (window.turns != nullptr)
      turn_back(gradient.data(), window.turns + size_t{j} * rank_, rank_);
    for (uint32_t r = 0; r < rank_; ++r)
      kernels.axpy(k_gradient_.data() + size_t{r} * window.inputs, gradient[r],
                   window.b + j * window.b_stride, window.inputs);
  }
}

double HeadFit::step(const HeadWindow& window, std::span<const uint32_t> queries, Loss loss,
                     float rate, const kernels::Table& kernels) {
  project_keys(window, kernels);
  keys_gradient_.assign(keys_.size(), 0);
  q_gradient_.assign(q_.size(), 0);
  k_gradient_.assign(k_.size(), 0);
  scores_.resize(window.tokens);
  target_.resize(window.tokens);
  double total = 0;
  for (const uint32_t i : queries)
    for (uint32_t g = 0; g < window.group; ++g) total += add_query(window, i, g, loss, kernels);
  gather_keys(window, kernels);
  adam_q_.step(q_, q_gradient_, rate);
  adam_k_.step(k_, k_gradient_, rate);
  return total / static_cast<double>(queries.size() * window.group);
}

}  // namespace kvick::distil
