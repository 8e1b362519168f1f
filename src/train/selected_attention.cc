#include "train/selected_attention.h"

#include <cmath>
#include <limits>

namespace kvick::train {
namespace {

constexpr uint64_t kMillion = 1'000'000;
constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Masks {
  Tensor asked;   // [T, T]: rows that are chosen among
  Tensor always;  // [T, T]: rows that are read anyway
  Tensor take;    // [T, 1]
};

Masks masks_of(int64_t tokens, const RowBudget& budget, const torch::Device& device) {
  std::vector<int64_t> first, last, take;
  for (int64_t i = 0; i < tokens; ++i) {
    const RowBudget::Choosing choosing = budget.of(static_cast<uint64_t>(i));
    first.push_back(static_cast<int64_t>(choosing.first));
    last.push_back(static_cast<int64_t>(choosing.last));
    take.push_back(static_cast<int64_t>(choosing.take));
  }
  const auto column = [&](const std::vector<int64_t>& values) {
    return torch::tensor(values).unsqueeze(1).to(device);
  };
  const Tensor row = torch::arange(tokens, device).unsqueeze(0);
  const Tensor asked = (row >= column(first)) & (row < column(last));
  const Tensor causal = row <= torch::arange(tokens, device).unsqueeze(1);
  return {.asked = asked, .always = causal & asked.logical_not(), .take = column(take)};
}

}  // namespace

RowBudget::Choosing RowBudget::of(uint64_t past) const {
  const uint64_t end = past > recent ? past - recent : 0;
  if (end <= sinks) return {.first = past, .last = past, .take = 0};
  // Whole millionths, as the engine has it: a product of doubles may be a little above its row.
  const auto millionths =
      static_cast<uint64_t>(std::llround(share * static_cast<double>(kMillion)));
  const uint64_t most = std::max(least, (past * millionths + kMillion - 1) / kMillion);
  const uint64_t always = past - (end - sinks);
  return {.first = sinks,
          .last = end,
          .take = most > always ? std::min(most - always, end - sinks) : 0};
}

Tensor chosen_rows(const Tensor& predicted, int64_t kv_heads, const RowBudget& budget) {
  const at::NoGradGuard no_grad;
  const int64_t tokens = predicted.size(-1);
  const Masks masks = masks_of(tokens, budget, predicted.device());
  // Where nothing is asked a row of softmax is NaN, and is not looked at.
  const Tensor weights =
      torch::softmax(predicted.masked_fill(masks.asked.logical_not(), kNever), -1)
          .view({predicted.size(0), kv_heads, -1, tokens, tokens})
          .sum(2)
          .masked_fill(masks.asked.logical_not(), -1);
  const Tensor place = weights.argsort(int64_t{-1}, /*descending=*/true).argsort(int64_t{-1});
  return ((place < masks.take) & masks.asked) | masks.always;
}

Selected selected_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& low_q,
                            const Tensor& low_k, const RowBudget& budget) {
  const int64_t group = q.size(1) / k.size(1), tokens = q.size(2);
  const auto each_query = [&](const Tensor& x) { return x.repeat_interleave(group, 1); };
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const Tensor scores = torch::matmul(q, each_query(k).transpose(-1, -2)) * scale;
  const Tensor queries = torch::matmul(q, low_q.transpose(-1, -2));
  const Tensor keys = torch::matmul(k, low_k.transpose(-1, -2));
  const Tensor predicted = torch::matmul(queries, each_query(keys).transpose(-1, -2));
  const Tensor causal = torch::ones({tokens, tokens}, q.options().dtype(torch::kBool)).tril();
  const Tensor counts = causal.sum(-1, true);
  const Tensor error = (predicted - scores).masked_fill(causal.logical_not(), 0);
  const Tensor centred =
      (error - error.sum(-1, true) / counts).masked_fill(causal.logical_not(), 0);
  const Tensor pairs = counts.sum() * (q.size(0) * q.size(1));
  const Tensor read = each_query(chosen_rows(predicted, k.size(1), budget));
  const Tensor out = torch::matmul(
      torch::softmax(scores.masked_fill(read.logical_not(), kNever), -1), each_query(v));
  return {.out = out, .error = (centred * centred).sum() / pairs};
}

}  // namespace kvick::train
