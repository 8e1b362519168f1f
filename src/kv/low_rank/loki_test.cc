// Compares Loki's choice with its definition.

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {.layers = 2,
                          .kv_heads = 2,
                          .head_dim = 8,
                          .max_tokens = 400,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};

std::vector<float> key_of(Row row, uint32_t layer, uint32_t head) {
  const std::vector<std::byte> bytes = bytes_of(kShape, {row}, layer, head, false);
  std::vector<float> key(kShape.head_dim);
  std::memcpy(key.data(), bytes.data(), bytes.size());
  return key;
}

// Returns the first d components of a vector; the rows of `basis` are the basis vectors.
std::vector<float> components(const float* basis, const float* x, uint32_t d) {
  std::vector<float> low(d);
  for (uint32_t r = 0; r < d; ++r)
    for (uint32_t i = 0; i < kShape.head_dim; ++i) low[r] += basis[r * kShape.head_dim + i] * x[i];
  return low;
}

TEST(Loki, ReadsTheRowsWhoseFirstComponentsScoreHighest) {
  for (const uint32_t d : {4u, 2u}) {
    const std::string policy = fmt::format("loki:budget=20,sinks=2,recent=3,d={}", d);
    Pair p("virtual " + policy, kShape);
    const auto found = made_predictor(kShape, PredictorForm::kComponents);
    const SeqId a = p.open();
    p.add(a, 40);
    for (uint32_t turn = 0; turn < 30; ++turn) {
      auto step = p.begin({{a, 1}});
      write_all(*step, kShape, p.fresh);
      const Rows& all = p.twin[a];
      const auto n = static_cast<uint32_t>(all.size());
      for (uint32_t layer = 0; layer < 2; ++layer)
        for (uint32_t head = 0; head < 2; ++head) {
          // Small queries, so that no probability underflows to zero.
          Query query = query_of(0, layer, head);
          std::vector<float> small(query.q, query.q + kShape.head_dim);
          for (float& x : small) x /= 32;
          query.q = small.data();
          const size_t at = size_t{head} * found->shape.rank * kShape.head_dim;
          const std::vector<float> q = components(&found->layers[layer].q[at], query.q, d);
          std::vector<double> scores(n);
          for (uint32_t row = 0; row < n; ++row) {
            const auto key = key_of(all[row], layer, head);
            const auto low = components(&found->layers[layer].k[at], key.data(), d);
            for (uint32_t r = 0; r < d; ++r)
              scores[row] += q[r] * kernels::f16_to_f32(kernels::f32_to_f16(low[r]));
          }
          std::vector<uint32_t> order(n - 5);
          std::iota(order.begin(), order.end(), 2);
          std::stable_sort(order.begin(), order.end(),
                           [&](uint32_t x, uint32_t y) { return scores[x] > scores[y]; });
          base::Arena scratch;
          kernels::View view;
          step->view(query, scratch, view);
          const Rows shown = positions(view);
          ASSERT_EQ(shown.size(), 20u);
          // Except for rounding, no omitted row scores higher than a row that is read.
          double least = 1e30;
          for (const Row row : shown)
            if (row >= 2 && row < n - 3) least = std::min(least, scores[row]);
          EXPECT_GE(least, scores[order[14]] - 1e-4);
        }
      p.commit(*step, Kept::all({p.slots}));
    }
  }
}

TEST(Loki, SaysWhatItsFileLacks) {
  kv::Setup setup = setup_for("virtual loki", kShape);
  const auto refusal = [&] { return make_store({"virtual", {}}, setup).error().message; };
  setup.select.spec = parse_spec("loki:d=5").value();
  EXPECT_EQ(refusal(),
            "loki: d is 5, but the file has 4 components of each key: lower d or leave it out");
  setup.select.spec = parse_spec("loki").value();
  setup.select.predictor = made_predictor(kShape, PredictorForm::kHeads);
  EXPECT_NE(refusal().find("kvick train pca makes loki's"), std::string::npos);
  setup.select.predictor = nullptr;
  EXPECT_NE(refusal().find("loki needs the components of keys"), std::string::npos);
}

}  // namespace
}  // namespace kvick::kv::test
