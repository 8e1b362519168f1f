#include "train/trainer/objective.h"

#include <ATen/CPUGeneratorImpl.h>
#include <cmath>
#include <limits>

namespace kvick::train {
namespace {

template <typename Number>
Tensor tensor_of(const std::vector<Number>& values, const std::vector<int64_t>& shape,
                 const torch::Device& device) {
  return torch::tensor(values).view(shape).to(device);
}

// log_q: [N, columns]; index, chances: [N, top]. Returns the mean over positions with any
// probabilities.
Tensor cross_entropy(const Tensor& log_q, const Tensor& index, const Tensor& chances) {
  const Tensor sums = chances.sum(-1, true);
  const Tensor share = chances / sums.clamp_min(1e-9);
  return -(share * log_q.gather(-1, index)).sum() / (sums > 0).sum();
}

}  // namespace

OnDevice to_device(const Batch& batch, const torch::Device& device) {
  const auto rows = static_cast<int64_t>(batch.rows), tokens = static_cast<int64_t>(batch.tokens);
  OnDevice out{.inputs = tensor_of(batch.inputs, {rows, tokens}, device),
               .targets = tensor_of(batch.targets, {rows, tokens}, device),
               .likeliest = {},
               .chances = {}};
  if (batch.top == 0) return out;
  const auto top = static_cast<int64_t>(batch.top);
  out.likeliest = tensor_of(batch.likeliest, {rows, tokens, top}, device);
  out.chances = tensor_of(batch.chances, {rows, tokens, top}, device);
  return out;
}

Tensor loss_of(const Tensor& logits, const OnDevice& data) {
  if (data.likeliest.defined())
    return cross_entropy(torch::log_softmax(logits.flatten(0, 1), -1), data.likeliest.flatten(0, 1),
                         data.chances.flatten(0, 1));
  return torch::cross_entropy_loss(logits.flatten(0, 1), data.targets.flatten(), {},
                                   at::Reduction::Mean, kNotAsked);
}

Tensor sampled_loss(const Tensor& hidden, const Tensor& output, const OnDevice& data,
                    uint64_t negatives, uint64_t seed) {
  const int64_t vocab = output.size(0);
  const auto [likely, index] = at::_unique(data.likeliest, /*sorted=*/true,
                                           /*return_inverse=*/true);
  const int64_t others = vocab - likely.size(0);
  at::Generator random = at::detail::createCPUGenerator(seed);
  const auto longs = torch::TensorOptions().dtype(torch::kInt64);
  Tensor drawn =
      torch::randint(vocab, {static_cast<int64_t>(negatives)}, random, longs).to(hidden.device());
  drawn = drawn.masked_select(torch::isin(drawn, likely).logical_not());
  // Each drawn token stands for others / drawn tokens.
  const double weight = std::log(static_cast<double>(std::max<int64_t>(1, others)) /
                                 static_cast<double>(std::max<int64_t>(1, drawn.size(0))));
  const Tensor columns = torch::cat({likely, drawn});
  const Tensor weights = torch::cat({torch::zeros_like(likely, torch::kFloat32),
                                     torch::full_like(drawn, weight, torch::kFloat32)});
  const Tensor logits =
      torch::matmul(hidden.flatten(0, 1), output.index_select(0, columns).to(hidden.dtype()).t());
  const Tensor log_q = torch::log_softmax(logits.to(torch::kFloat32) + weights, -1);
  return cross_entropy(log_q, index.flatten(0, 1), data.chances.flatten(0, 1));
}

}  // namespace kvick::train
