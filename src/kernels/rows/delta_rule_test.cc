#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

// The inputs of a run.
struct DeltaData {
  size_t tokens, k_dim, panels;
  std::vector<float> q, k, v, decay, beta, before;

  DeltaData(size_t n, size_t keys, size_t of_values) : tokens(n), k_dim(keys), panels(of_values) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& x, size_t size, float scale) {
      x.resize(size);
      for (float& e : x) e = scale * normal(random);
    };
    const float unit = 1 / std::sqrt(static_cast<float>(k_dim));  // for keys with a norm near 1
    fill(q, tokens * k_dim, unit), fill(k, tokens * k_dim, unit);
    fill(v, tokens * values(), 1), fill(before, k_dim * values(), 1);
    fill(decay, tokens, 1), fill(beta, tokens, 1);
    for (float& e : decay) e = 1 / (1 + std::exp(-3 - e));
    for (float& e : beta) e = 1 / (1 + std::exp(-e));
  }
  size_t values() const { return panels * kDeltaPanel; }
  size_t place(size_t key, size_t value) const {
    return (value / kDeltaPanel * k_dim + key) * kDeltaPanel + value % kDeltaPanel;
  }
  // Returns a run of some tokens, from the state `from` to the state `to`.
  DeltaRun run(size_t first, size_t count, const float* from, float* to, float* out) const {
    return {.tokens = count,
            .k_dim = k_dim,
            .panels = panels,
            .q = q.data() + first * k_dim,
            .k = k.data() + first * k_dim,
            .k_stride = k_dim,
            .v = v.data() + first * values(),
            .v_stride = values(),
            .decay = decay.data() + first,
            .beta = beta.data() + first,
            .gate_stride = 1,
            .before = from,
            .after = to,
            .out = out + first * values(),
            .out_stride = values()};
  }
  // The definition: outputs, then the state after the last token.
  std::pair<std::vector<double>, std::vector<double>> twin() const {
    std::vector<double> s(before.begin(), before.end()), out(tokens * values());
    for (size_t t = 0; t < tokens; ++t)
      for (size_t j = 0; j < values(); ++j) {
        double told = 0;
        for (size_t i = 0; i < k_dim; ++i) told += k[t * k_dim + i] * (s[place(i, j)] *= decay[t]);
        const double d = beta[t] * (v[t * values() + j] - told);
        for (size_t i = 0; i < k_dim; ++i)
          out[t * values() + j] += q[t * k_dim + i] * (s[place(i, j)] += k[t * k_dim + i] * d);
      }
    return {out, s};
  }
};

template <typename Test>
void for_each_set(Test test) {
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    SCOPED_TRACE(base::isa_name(isa));
    test(table(isa));
  }
}

TEST(DeltaRule, FollowsItsDefinition) {
  for (const auto& [tokens, keys, panels] :
       {std::array<size_t, 3>{1, 8, 1}, {5, 16, 3}, {70, 128, 8}}) {
    const DeltaData data(tokens, keys, panels);
    const auto twin =
        data.twin();  // no structured binding, which lambdas of clang 14 cannot capture
    const auto &out = twin.first, &state = twin.second;
    for_each_set([&](const Table& table) {
      std::vector<float> got(out.size()), after(state.size());
      table.delta_rule(data.run(0, data.tokens, data.before.data(), after.data(), got.data()));
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(got[i], out[i], 2e-5) << i;
      for (size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(after[i], state[i], 2e-5) << i;
    });
  }
}

TEST(DeltaRule, GivesTheSameBitsHoweverTokensAndPanelsAreDivided) {
  const DeltaData data(13, 32, 5);
  for_each_set([&](const Table& table) {
    const size_t values = data.values();
    std::vector<float> whole(data.tokens * values), after(data.before.size());
    table.delta_rule(data.run(0, data.tokens, data.before.data(), after.data(), whole.data()));
    std::vector<float> parts(whole.size()), state = data.before;
    for (size_t first = 0; first < data.tokens; first += 4)  // in place
      table.delta_rule(data.run(first, std::min<size_t>(4, data.tokens - first), state.data(),
                                state.data(), parts.data()));
    EXPECT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(state.data(), after.data(), after.size() * sizeof(float)), 0);
    for (size_t panel = 0; panel < data.panels; ++panel) {
      const size_t at = panel * data.k_dim * kDeltaPanel;
      std::vector<float> one = data.before;
      DeltaRun run =
          data.run(0, data.tokens, one.data() + at, one.data() + at, parts.data() + panel * 16);
      run.panels = 1, run.v += panel * kDeltaPanel;
      table.delta_rule(run);
      EXPECT_EQ(std::memcmp(one.data() + at, after.data() + at, 4 * data.k_dim * kDeltaPanel), 0);
    }
    EXPECT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0);
  });
}

}  // namespace
}  // namespace kvick::kernels
