// Tests attention over selected rows, and training through it.

#include <cmath>
#include <filesystem>
#include <numeric>

#include "kv/strategy/selection.h"
#include "train/files/export.h"
#include "train/from_model/start.h"
#include "train/network/selected_attention.h"
#include "train/trainer/test_training.h"

namespace kvick::train {
namespace {

using test::run_to, test::small_settings, test::small_text, test::test_path;

TEST(RowBudget, IsTheEngines) {
  for (const double share : {0.5, 0.25, 0.2, 0.15, 0.125})
    for (const uint64_t recent : {uint64_t{0}, uint64_t{5}, uint64_t{32}}) {
      const uint64_t least = 4 * recent;
      const RowBudget budget = {.share = share, .least = least, .sinks = 4, .recent = recent};
      const kv::Selection engine = {.share = static_cast<uint64_t>(std::llround(share * 1e6)),
                                    .least = static_cast<uint32_t>(least),
                                    .sinks = 4,
                                    .recent = static_cast<uint32_t>(recent)};
      for (uint32_t past = 0; past < 400; ++past) {
        const RowBudget::Choosing got = budget.of(past);
        const kv::TopRows expected = engine.of(past);
        ASSERT_EQ(got.take, expected.take) << share << ", " << recent << ", " << past;
        if (expected.last == expected.first) continue;
        ASSERT_EQ(got.first, expected.first);
        ASSERT_EQ(got.last, expected.last);
      }
    }
}

struct Problem {
  Tensor q, k, v, low_q, low_k;
};
Problem some_problem() {
  at::manual_seed(11);
  return {.q = torch::randn({2, 4, 140, 32}),
          .k = torch::randn({2, 2, 140, 32}),
          .v = torch::randn({2, 2, 140, 32}),
          .low_q = torch::randn({4, 3, 32}) * 0.2,
          .low_k = torch::randn({2, 3, 32}) * 0.2};
}

TEST(SelectedAttention, IsThatOfTheRowsThatAreHeaviestByThePrediction) {
  const Problem p = some_problem();
  const RowBudget budget = {.share = 0.4, .sinks = 2, .recent = 3};
  const Selected got = selected_attention(p.q, p.k, p.v, p.low_q, p.low_k, budget);
  double square = 0, pairs = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 140; ++i)
      for (int64_t head = 0; head < 2; ++head) {
        const RowBudget::Choosing choosing = budget.of(static_cast<uint64_t>(i));
        const Tensor keys = p.k[b][head].slice(0, 0, i + 1);
        const Tensor low_keys = torch::matmul(keys, p.low_k[head].t());
        const auto first = static_cast<int64_t>(choosing.first),
                   last = static_cast<int64_t>(choosing.last);
        Tensor weights = torch::zeros({last - first});
        for (int64_t g = 2 * head; g < 2 * head + 2; ++g) {
          const Tensor predicted = torch::matmul(low_keys, torch::matmul(p.low_q[g], p.q[b][g][i]));
          weights += torch::softmax(predicted.slice(0, first, last), -1);
          const Tensor error = predicted - torch::matmul(keys, p.q[b][g][i]) / std::sqrt(32.0);
          square += (error - error.mean()).square().sum().item<double>();
          pairs += static_cast<double>(i + 1);
        }
        std::vector<int64_t> rows(static_cast<size_t>(first));
        std::iota(rows.begin(), rows.end(), 0);
        const Tensor order = weights.argsort(int64_t{-1}, true);
        for (uint64_t n = 0; n < choosing.take; ++n)
          rows.push_back(first + order[static_cast<int64_t>(n)].item<int64_t>());
        for (int64_t row = last; row <= i; ++row) rows.push_back(row);
        if (choosing.first == static_cast<uint64_t>(i)) rows.resize(static_cast<size_t>(i) + 1);
        const Tensor index = torch::tensor(rows);
        for (int64_t g = 2 * head; g < 2 * head + 2; ++g) {
          const Tensor scores =
              torch::matmul(keys.index_select(0, index), p.q[b][g][i]) / std::sqrt(32.0);
          const Tensor expected =
              torch::matmul(torch::softmax(scores, -1), p.v[b][head].index_select(0, index));
          ASSERT_LT((got.out[b][g][i] - expected).abs().max().item<float>(), 1e-5)
              << b << ", " << g << ", " << i;
        }
      }
  EXPECT_NEAR(got.error.item<double>(), square / pairs, 1e-4);
}

TEST(SelectedAttention, OfAllRowsIsAttention) {
  const Problem p = some_problem();
  const Selected got = selected_attention(p.q, p.k, p.v, p.low_q, p.low_k, {.share = 1});
  const Tensor expected =
      attention_written_out(p.q, p.k.repeat_interleave(2, 1), p.v.repeat_interleave(2, 1));
  EXPECT_LT((got.out - expected).abs().max().item<float>(), 1e-5);
}

TEST(Maple, TrainsModelAndPredictorTogether) {
  const std::string folder = test_path("maple_model"), path = folder + "/model.gguf";
  const TokenData text = small_text();
  export_model(run_to(small_settings("llama"), text, {.folder = folder}, 1000), path,
               FileType::kF32, 0);
  Checkpoint begin = start_of(io::ModelFile::open(path).value(), {}).value();
  kv::Predictor predictor;
  predictor.shape = {.layers = 2,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 32,
                     .dim = 64,
                     .rank = 3,
                     .form = kv::PredictorForm::kHeads};
  at::manual_seed(5);
  for (int layer = 0; layer < 2; ++layer) {
    kv::PredictorLayer one = {.q = std::vector<float>(4 * 3 * 32),
                              .k = std::vector<float>(2 * 3 * 32)};
    for (float& x : one.q) x = torch::randn({}).item<float>() * 0.01F;
    for (float& x : one.k) x = torch::randn({}).item<float>() * 10;
    predictor.layers.push_back(one);
  }
  const std::vector<float> plain = begin.values;
  ASSERT_TRUE(add_predictor(predictor, begin).ok());
  begin.best = begin.values;
  // Rescaled rows have the same products.
  const kv::Predictor even = predictor_of(begin).value();
  const size_t row = (3 * 3 + 2) * 32, key = (1 * 3 + 2) * 32;
  EXPECT_NEAR(even.layers[1].q[row + 7] * even.layers[1].k[key + 9],
              predictor.layers[1].q[row + 7] * predictor.layers[1].k[key + 9], 1e-5);
  Settings settings = small_settings("llama");
  settings.model = begin.settings.model;
  settings.model.ctx = 60;
  settings.run.budget = 0.3;
  settings.run.least = 0, settings.run.recent = 4;
  settings.run.lr = 1e-3;
  const RunOptions options = {.folder = test_path("maple"), .start = &begin};
  const Checkpoint trained = run_to(settings, text, options, 1000);
  const auto error_of = [&](const std::vector<float>& values) {
    const Parameters weights(settings, torch::kCPU);
    const at::NoGradGuard no_grad;
    Tensor all = weights.values(), error;
    all.copy_(torch::tensor(values));
    const std::vector<int64_t> tokens(text.held_out.begin(), text.held_out.begin() + 60);
    hidden_of(weights, settings.model, torch::tensor(tokens).unsqueeze(0), {}, &error);
    return error.item<double>();
  };
  EXPECT_LT(error_of(trained.values), 0.9 * error_of(begin.values));
  EXPECT_NE(predictor_of(trained).value().layers[0].k, even.layers[0].k);
  // The exported file has no predictor.
  export_model(begin, path, FileType::kF32, 0);
  EXPECT_EQ(start_of(io::ModelFile::open(path).value(), {}).value().values, plain);
  std::filesystem::remove_all(folder);
  std::filesystem::remove_all(options.folder);
}

}  // namespace
}  // namespace kvick::train
