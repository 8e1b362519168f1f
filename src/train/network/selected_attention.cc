#include "train/network/selected_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvick::train {
namespace {

constexpr uint64_t kMillion = 1'000'000;
// Queries whose scores are computed together, only against the rows that they may see. This halves
// the number of pairs, and the scores of a piece stay in the CPU cache.
constexpr int64_t kPiece = 128;
constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Masks {
  Tensor asked;      // [queries, rows]: rows to select from
  Tensor always;     // [queries, rows]: rows that are always read
  Tensor take;       // [queries, 1]: number of rows to select
  int64_t most = 1;  // the largest take, at least 1
};

// Returns the masks of the last `queries` of `rows` tokens.
Masks masks_of(int64_t queries, int64_t rows, const RowBudget& budget,
               const torch::Device& device) {
  std::vector<int64_t> first, last, take;
  for (int64_t i = rows - queries; i < rows; ++i) {
    const RowBudget::Choosing choosing = budget.of(static_cast<uint64_t>(i));
    first.push_back(static_cast<int64_t>(choosing.first));
    last.push_back(static_cast<int64_t>(choosing.last));
    take.push_back(static_cast<int64_t>(choosing.take));
  }
  const auto column = [&](const std::vector<int64_t>& values) {
    return torch::tensor(values).unsqueeze(1).to(device);
  };
  const Tensor row = torch::arange(rows, device).unsqueeze(0);
  const Tensor asked = (row >= column(first)) & (row < column(last));
  const Tensor causal = row <= torch::arange(rows - queries, rows, device).unsqueeze(1);
  return {.asked = asked,
          .always = causal & asked.logical_not(),
          .take = column(take),
          .most = std::max<int64_t>(1, *std::max_element(take.begin(), take.end()))};
}

// Returns the sum of squared errors over causal pairs, after subtracting each query's mean. error:
// [B, heads, the last tokens, tokens].
Tensor square_error(const Tensor& error) {
  const int64_t queries = error.size(-2), rows = error.size(-1);
  const Tensor unseen =
      torch::ones({queries, rows}, error.options().dtype(torch::kBool)).triu(rows - queries + 1);
  const Tensor counts = torch::arange(rows - queries + 1, rows + 1, error.device()).unsqueeze(1);
  const Tensor seen = error.masked_fill(unseen, 0);
  const Tensor centred = (seen - seen.sum(-1, true) / counts).masked_fill(unseen, 0);
  return (centred * centred).sum();
}

}  // namespace

RowBudget::Choosing RowBudget::of(uint64_t past) const {
  const uint64_t end = past > recent ? past - recent : 0;
  if (end <= sinks) return {.first = past, .last = past, .take = 0};
  // In whole millionths, as in the engine: a product of doubles may slightly exceed a whole number
  // of rows, which would round up to one row more.
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
  const int64_t queries = predicted.size(-2), rows = predicted.size(-1);
  const Masks masks = masks_of(queries, rows, budget, predicted.device());
  // A query with no rows to select from gets NaN from softmax, which is not used.
  const Tensor weights =
      torch::softmax(predicted.masked_fill(masks.asked.logical_not(), kNever), -1)
          .view({predicted.size(0), kv_heads, -1, queries, rows})
          .sum(2)
          .masked_fill(masks.asked.logical_not(), -1);
  const Tensor heaviest = std::get<1>(weights.topk(masks.most));
  const Tensor taken = (torch::arange(masks.most, predicted.device()) < masks.take)
                           .expand({predicted.size(0), kv_heads, queries, masks.most});
  const Tensor chosen = torch::zeros_like(weights, torch::kBool).scatter_(-1, heaviest, taken);
  return (chosen & masks.asked) | masks.always;
}

Selected selected_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& low_q,
                            const Tensor& low_k, const RowBudget& budget) {
  const int64_t group = q.size(1) / k.size(1), tokens = q.size(2);
  const auto each_query = [&](const Tensor& x) { return x.repeat_interleave(group, 1); };
  const Tensor scaled = q * (1 / std::sqrt(static_cast<double>(q.size(-1))));
  const Tensor queries = torch::matmul(q, low_q.transpose(-1, -2));
  const Tensor keys = each_query(torch::matmul(k, low_k.transpose(-1, -2)));
  const Tensor true_keys = each_query(k), values = each_query(v);
  std::vector<Tensor> out;
  Tensor squares;
  for (int64_t first = 0; first < tokens; first += kPiece) {
    const int64_t end = std::min(first + kPiece, tokens);
    const auto asks = [&](const Tensor& x) { return x.narrow(2, first, end - first); };
    const auto seen = [&](const Tensor& x) { return x.narrow(2, 0, end); };
    const Tensor scores = torch::matmul(asks(scaled), seen(true_keys).transpose(-1, -2));
    const Tensor predicted = torch::matmul(asks(queries), seen(keys).transpose(-1, -2));
    const Tensor missed = square_error(predicted - scores);
    squares = squares.defined() ? squares + missed : missed;
    const Tensor left = each_query(chosen_rows(predicted, k.size(1), budget)).logical_not();
    out.push_back(
        torch::matmul(torch::softmax(scores.masked_fill(left, kNever), -1), seen(values)));
  }
  const auto pairs = static_cast<double>(tokens * (tokens + 1) / 2 * q.size(0) * q.size(1));
  return {.out = torch::cat(out, 2), .error = squares / pairs};
}

}  // namespace kvick::train
