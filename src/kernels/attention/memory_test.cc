#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

std::vector<float> random_floats(size_t n, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> made(n);
  for (float& x : made) x = normal(random);
  return made;
}

// Calls test(table) for every instruction set that this machine has.
template <typename Test>
void for_each_table(Test test) {
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    SCOPED_TRACE(base::isa_name(isa));
    test(table(isa));
  }
}

TEST(ExpRow, GivesExponentialsAgainstTheLargestAndTheirSum) {
  for_each_table([](const Table& table) {
    for (const size_t n : {1, 3, 7, 8, 15, 16, 17, 64, 100, 577}) {
      const auto in = random_floats(n, 7, 20);
      auto x = in;
      x.push_back(77);
      const float sum = table.exp_row(x.data(), n, 0.25F);
      const double most = *std::max_element(in.begin(), in.end());
      double expected = 0;
      for (size_t i = 0; i < n; ++i) {
        const double e = std::exp(0.25 * (in[i] - most));
        EXPECT_NEAR(x[i], e, 2e-6 * e) << n;
        expected += e;
      }
      EXPECT_NEAR(sum, expected, 2e-6 * expected) << n;
      EXPECT_EQ(x[n], 77);
    }
  });
}

TEST(ExpRow, MakesWhatVanishesZeroAndNeverTooSmallForANormalNumber) {
  for_each_table([](const Table& table) {
    std::vector<float> x(40);
    for (size_t i = 0; i < x.size(); ++i) x[i] = -3.0F * static_cast<float>(i);
    (void)table.exp_row(x.data(), x.size(), 1);
    for (const float e : x) EXPECT_TRUE(e == 0 || e >= 0x1p-126F) << e;
    EXPECT_EQ(x[0], 1);
    EXPECT_EQ(x[39], 0);
  });
}

// One walk's inputs.
struct Made {
  explicit Made(uint32_t slots, uint32_t head_dim, uint32_t tokens, uint32_t group)
      : values(random_floats(size_t{slots} * head_dim, 1)),
        weights(random_floats(size_t{tokens} * (slots + 3), 2)),
        adds(random_floats(size_t{tokens} * head_dim, 3)),
        probs(random_floats(size_t{tokens} * group * (slots + 3), 4)),
        gates(random_floats(tokens, 5, 0.5F)),
        out(size_t{tokens} * group * head_dim, 77) {
    walk = {.slots = slots,
            .head_dim = head_dim,
            .tokens = tokens,
            .group = group,
            .stride = slots + 3,
            .from = values.data(),
            .weights = weights.data(),
            .adds = adds.data(),
            .probs = probs.data(),
            .out = out.data(),
            .out_stride = size_t{group} * head_dim};
  }
  std::vector<float> values, weights, adds, probs, gates, out;  // gates: for gated tests
  MemoryWalk walk;
};

// The definition, in doubles: the values after the last token, and what tokens read.
void naive(const MemoryWalk& w, std::vector<double>& values, std::vector<double>& out) {
  values.assign(w.from, w.from + size_t{w.slots} * w.head_dim);
  out.clear();
  for (uint32_t t = 0; t < w.tokens; ++t) {
    for (uint32_t m = 0; m < w.slots; ++m)
      for (uint32_t d = 0; d < w.head_dim; ++d)
        values[m * w.head_dim + d] =
            values[m * w.head_dim + d] * (w.gates != nullptr ? w.gates[t] : 1) +
            double{w.weights[t * w.stride + m]} * w.adds[t * w.head_dim + d];
    for (uint32_t g = 0; t >= w.first_read && g < w.group; ++g)
      for (uint32_t d = 0; d < w.head_dim; ++d) {
        double sum = 0;
        for (uint32_t m = 0; m < w.slots; ++m)
          sum += w.probs[((t - w.first_read) * w.group + g) * w.stride + m] *
                 values[m * w.head_dim + d];
        out.push_back(sum);
      }
  }
}

TEST(WalkMemory, AddsAndReadsTokensOneAfterTheOther) {
  for_each_table([](const Table& table) {
    for (const bool gated : {false, true})
      for (const uint32_t slots : {1U, 3U, 4U, 21U})
        for (const uint32_t head_dim : {1U, 8U, 24U, 64U, 100U, 128U})
          for (const uint32_t first_read : {0U, 2U, 5U}) {
            Made made(slots, head_dim, 5, 3);
            made.walk.first_read = first_read;
            if (gated) made.walk.gates = made.gates.data();
            std::vector<float> after(made.values.size());
            made.walk.to = after.data();
            table.walk_memory(made.walk);
            std::vector<double> values, out;
            naive(made.walk, values, out);
            for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(after[i], values[i], 1e-5);
            for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(made.out[i], out[i], 3e-5);
            for (size_t i = out.size(); i < made.out.size(); ++i) ASSERT_EQ(made.out[i], 77);
          }
  });
}

TEST(WalkMemory, HasTheSameBitsHoweverTokensAreCutIntoWalks) {
  for_each_table([](const Table& table) {
    for (const bool gated : {false, true}) {
      Made whole(37, 40, 11, 2), cut(37, 40, 11, 2);
      whole.walk.to = whole.values.data();  // in place
      if (gated) whole.walk.gates = whole.gates.data();
      table.walk_memory(whole.walk);
      uint32_t first = 0;
      for (const uint32_t tokens : {1U, 4U, 6U}) {
        MemoryWalk walk = cut.walk;
        walk.to = cut.values.data();
        walk.tokens = tokens;
        walk.weights += size_t{first} * walk.stride;
        walk.adds += size_t{first} * walk.head_dim;
        if (gated) walk.gates = cut.gates.data() + first;
        walk.probs += size_t{first} * walk.group * walk.stride;
        walk.out += first * walk.out_stride;
        table.walk_memory(walk);
        first += tokens;
      }
      EXPECT_EQ(whole.values, cut.values);
      EXPECT_EQ(whole.out, cut.out);
    }
  });
}

TEST(WalkMemory, GatesOfOneChangeNoBit) {
  for_each_table([](const Table& table) {
    Made without(37, 40, 11, 2), with(37, 40, 11, 2);
    std::fill(with.gates.begin(), with.gates.end(), 1.0F);
    with.walk.gates = with.gates.data();
    for (Made* made : {&without, &with}) {
      made->walk.to = made->values.data();
      table.walk_memory(made->walk);
    }
    EXPECT_EQ(with.values, without.values);
    EXPECT_EQ(with.out, without.out);
  });
}

TEST(WalkMemory, LeavesTheValuesAloneWhenTheNewOnesAreNotWanted) {
  for_each_table([](const Table& table) {
    Made made(8, 16, 3, 1);
    const std::vector<float> before = made.values;
    table.walk_memory(made.walk);
    EXPECT_EQ(made.values, before);
  });
}

}  // namespace
}  // namespace kvick::kernels
