#include "quantize/encode_grid.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <span>
#include <vector>

#include "quantize/encode.h"
#include "quantize/grid_search.h"

#include "kernels/formats/codebooks.h"
#include "kernels/formats/grids.h"

namespace kvick::quantize {
namespace {

using kernels::DType;

constexpr DType kGridTypes[] = {DType::kIQ3_S,   DType::kIQ3_XXS, DType::kIQ2_S, DType::kIQ2_XS,
                                DType::kIQ2_XXS, DType::kIQ1_S,   DType::kIQ1_M};

std::vector<float> gaussian(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& value : out) value = 0.02F * normal(random);
  return out;
}
std::vector<float> positive(size_t n, uint32_t seed) {
  std::vector<float> out = gaussian(n, seed);
  for (float& value : out) value = std::exp(50 * value);
  return out;
}

// -- the search of points -------------------------------------------------------------------------

template <size_t N, size_t L>
void expect_the_cheapest_of_all(std::span<const uint16_t> points, uint32_t seed) {
  using Search = GridSearch<N, L>;
  const Search search(points);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0, 1.5F * L);
  for (int round = 0; round < 300; ++round) {
    // Squared distances from a number among the levels, or outside them.
    typename Search::Costs costs, flipped;
    for (size_t i = 0; i < N; ++i) {
      const float at = uniform(random), weight = 0.1F + uniform(random);
      for (size_t k = 0; k < L; ++k) {
        const auto level = static_cast<float>(k);
        costs[i][k] = weight * (at - level) * (at - level);
        flipped[i][k] = weight * (at + level) * (at + level);
      }
    }
    const auto cost_of = [&](uint16_t point, size_t flip) {
      float sum = 0;
      for (size_t i = 0; i < N; ++i)
        sum += (i == flip ? flipped : costs)[i][Search::level_of(point, i)];
      return sum;
    };
    float plain = INFINITY, one = INFINITY;
    for (const uint16_t point : points) {
      plain = std::min(plain, cost_of(point, N));
      for (size_t i = 0; i < N; ++i) one = std::min(one, cost_of(point, i));
    }
    const auto found = search.nearest(costs), found_one = search.nearest_flipped(costs, flipped);
    ASSERT_NEAR(found.cost, plain, 1e-4F * plain);
    ASSERT_NEAR(cost_of(found.point, N), plain, 1e-4F * plain);
    ASSERT_NEAR(found_one.cost, one, 1e-4F * one);
    float again = INFINITY;
    for (size_t i = 0; i < N; ++i) again = std::min(again, cost_of(found_one.point, i));
    ASSERT_NEAR(again, one, 1e-4F * one);
  }
}

TEST(GridSearch, finds_the_cheapest_of_all_points) {
  expect_the_cheapest_of_all<8, 3>(kernels::kIq2XxsGrid, 1);
  expect_the_cheapest_of_all<8, 3>(kernels::kIq2XsGrid, 2);
  expect_the_cheapest_of_all<8, 3>(kernels::kIq2SGrid, 3);
  expect_the_cheapest_of_all<8, 3>(kernels::kIq1Grid, 4);
  expect_the_cheapest_of_all<4, 8>(kernels::kIq3XxsGrid, 5);
  expect_the_cheapest_of_all<4, 8>(kernels::kIq3SGrid, 6);
}

// -- blocks ---------------------------------------------------------------------------------------

// The points of a type.
struct Naive {
  std::span<const uint16_t> grid;
  size_t n;  // weights per point
  const kernels::Codebook& book;
  float unit;
  bool even;
};
Naive naive_of(DType type) {
  switch (type) {
    case DType::kIQ3_S:
      return {kernels::kIq3SGrid, 4, kernels::kOdd4, 1, false};
    case DType::kIQ3_XXS:
      return {kernels::kIq3XxsGrid, 4, kernels::kGrid4, 0.5F, true};
    case DType::kIQ2_S:
      return {kernels::kIq2SGrid, 8, kernels::kGrid3, 0.125F, false};
    case DType::kIQ2_XS:
      return {kernels::kIq2XsGrid, 8, kernels::kGrid3, 0.125F, true};
    default:
      return {kernels::kIq2XxsGrid, 8, kernels::kGrid3, 0.125F, true};
  }
}

// Returns the smallest error of 8 weights over all points and signs.
double least_error(const Naive& type, const float* x, const float* w, float scale) {
  double least = INFINITY;
  const uint32_t bits = type.n == 8 ? 2 : 3;
  for (uint32_t signs = 0; signs < 256; ++signs) {
    if (type.even && std::popcount(signs) % 2 != 0) continue;
    double all = 0;
    for (size_t first = 0; first < 8; first += type.n) {
      double best = INFINITY;
      for (const uint16_t point : type.grid) {
        double sum = 0;
        for (size_t i = 0; i < type.n; ++i) {
          const uint32_t k = point >> bits * i & ((1U << bits) - 1);
          const double level = (type.book.u[k] - type.book.zero) * type.unit * scale;
          const double off = x[first + i] - (signs >> (first + i) & 1 ? -level : level);
          sum += w[first + i] * off * off;
        }
        best = std::min(best, sum);
      }
      all += best;
    }
    least = std::min(least, all);
  }
  return least;
}

double weighted_error(const float* x, const float* w, const float* again, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i)
    sum += w[i] * (double{x[i]} - again[i]) * (double{x[i]} - again[i]);
  return sum;
}

struct Decoded {
  kernels::BlockCodes block;
  std::vector<float> values;
};
Decoded filled(DType type, const float* x, const float* w) {
  Decoded out;
  fill_grid(type, x, w, out.block);
  std::vector<std::byte> bytes(kernels::dtype_info(type).block_bytes);
  kernels::write_block(type, out.block, bytes.data());
  out.values.resize(256);
  kernels::to_f32(type, bytes.data(), 256, out.values.data());
  return out;
}

TEST(EncodeGrid, points_and_signs_are_the_best_of_all_for_the_scales) {
  for (const DType type :
       {DType::kIQ3_S, DType::kIQ3_XXS, DType::kIQ2_S, DType::kIQ2_XS, DType::kIQ2_XXS}) {
    const std::vector<float> x = gaussian(256, 7), w = positive(256, 8);
    const Decoded block = filled(type, x.data(), w.data());
    const bool halves = type == DType::kIQ2_S || type == DType::kIQ2_XS;
    for (size_t i = 0; i < 256; i += 8) {
      const int scale = block.block.scale[i / (halves ? 16 : 32)];
      const double best =
          least_error(naive_of(type), &x[i], &w[i],
                      kernels::f16_to_f32(block.block.d) * static_cast<float>(scale));
      ASSERT_NEAR(weighted_error(&x[i], &w[i], &block.values[i], 8), best, 1e-4 * best)
          << kernels::dtype_info(type).name << ", weights " << i;
    }
  }
}

TEST(EncodeGrid, ternary_points_are_the_best_of_all_for_the_scales) {
  for (const DType type : {DType::kIQ1_S, DType::kIQ1_M}) {
    const std::vector<float> x = gaussian(256, 9), w = positive(256, 10);
    const Decoded block = filled(type, x.data(), w.data());
    const size_t together = type == DType::kIQ1_S ? 32 : 8;  // weights that share a sign
    for (size_t at = 0; at < 256; at += together) {
      const float scale = kernels::f16_to_f32(block.block.d) *
                          static_cast<float>(block.block.scale[at / (together == 32 ? 32 : 16)]);
      double best[2] = {};
      for (size_t s = 0; s < 2; ++s)
        for (size_t i = at; i < at + together; i += 8) {
          double least = INFINITY;
          for (const uint16_t point : kernels::kIq1Grid) {
            float level[8];
            for (size_t k = 0; k < 8; ++k)
              level[k] =
                  scale * (static_cast<float>(point >> 2 * k & 3) - (s == 0 ? 0.875F : 1.125F));
            least = std::min(least, weighted_error(&x[i], &w[i], level, 8));
          }
          best[s] += least;
        }
      const double want = std::min(best[0], best[1]);
      ASSERT_NEAR(weighted_error(&x[at], &w[at], &block.values[at], together), want, 1e-4 * want)
          << kernels::dtype_info(type).name << ", weights " << at;
    }
  }
}

// No code of R bits per Gaussian weight has a relative error below 2^-R (Shannon).
TEST(EncodeGrid, errors_are_near_the_least_that_the_bits_allow) {
  const std::vector<float> x = gaussian(256 * 64, 11), ones(x.size(), 1);
  for (const DType type : kGridTypes) {
    const kernels::DTypeInfo& info = kernels::dtype_info(type);
    std::vector<std::byte> bytes(kernels::dtype_bytes(type, x.size()));
    encode(type, x, {}, bytes.data());
    std::vector<float> again(x.size()), zeros(x.size(), 0);
    kernels::to_f32(type, bytes.data(), x.size(), again.data());
    const double error = std::sqrt(weighted_error(x.data(), ones.data(), again.data(), x.size()) /
                                   weighted_error(x.data(), ones.data(), zeros.data(), x.size()));
    const double least = std::exp2(-8.0 * info.block_bytes / 256);
    EXPECT_GT(error, least) << info.name;
    EXPECT_LT(error, 1.5 * least) << info.name;
  }
}

TEST(EncodeGrid, zeros_among_other_groups_become_small) {
  std::vector<float> x = gaussian(256, 12), w(256, 1);
  std::fill(x.begin(), x.begin() + 32, 0.0F);
  for (const DType type : kGridTypes)
    for (int i = 0; i < 32; ++i)
      EXPECT_LT(std::fabs(filled(type, x.data(), w.data()).values[static_cast<size_t>(i)]), 0.005F)
          << kernels::dtype_info(type).name;
}

// -- ternary types --------------------------------------------------------------------------------

TEST(EncodeTernary, weights_of_three_values_come_back) {
  std::mt19937 random(13);
  std::vector<float> x(256), w = positive(256, 14), again(256);
  for (float& value : x) value = 0.03125F * static_cast<float>(static_cast<int>(random() % 3) - 1);
  for (const DType type : {DType::kTQ1_0, DType::kTQ2_0}) {
    std::vector<std::byte> bytes(kernels::dtype_info(type).block_bytes);
    encode(type, x, w, bytes.data());
    kernels::to_f32(type, bytes.data(), 256, again.data());
    EXPECT_EQ(again, x);
  }
}

TEST(EncodeTernary, no_scale_has_a_smaller_error) {
  const std::vector<float> x = gaussian(256, 15), w = positive(256, 16);
  kernels::BlockCodes block;
  fill_ternary(x.data(), w.data(), block);
  const auto error_of = [&](const auto& value_of) {
    double sum = 0;
    for (size_t i = 0; i < 256; ++i) sum += w[i] * std::pow(x[i] - value_of(i), 2);
    return sum;
  };
  const double d = kernels::f16_to_f32(block.d);
  const double ours = error_of([&](size_t i) { return d * (block.code[i] - 1); });
  for (int k = 1; k <= 4000; ++k) {
    const double scale = 0.1 * k / 4000;
    const double theirs = error_of([&](size_t i) {
      return scale * std::clamp(std::nearbyint(double{x[i]} / scale), -1.0, 1.0);
    });
    ASSERT_LT(ours, 1.00001 * theirs) << scale;
  }
}

}  // namespace
}  // namespace kvick::quantize
