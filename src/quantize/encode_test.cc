#include "quantize/encode.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "make_model/encode.h"
#include "quantize/fit.h"

#include "kernels/formats/write_block.h"

namespace kvick::quantize {
namespace {

using kernels::DType;

std::vector<DType> block_types() {
  std::vector<DType> types;
  for (int i = 0; i < kernels::kWeightTypes; ++i)
    if (kernels::has_block_writer(static_cast<DType>(i))) types.push_back(static_cast<DType>(i));
  return types;
}

// Returns blocks of 256 weights of very different sizes, some of one sign, with a few outliers.
std::vector<float> weights(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const float size = std::ldexp(1.0F, static_cast<int>(i / 32 % 7) - 3);
    out[i] = size * normal(random) + (i / 256 % 3 == 1 ? size : 0);
    if (random() % 97 == 0) out[i] *= 5;
  }
  return out;
}

double error(DType type, const std::vector<float>& x, const std::vector<std::byte>& bytes,
             const std::vector<float>& importance = {}) {
  std::vector<float> again(x.size());
  kernels::to_f32(type, bytes.data(), x.size(), again.data());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double off = again[i] - x[i];
    sum += off * off * (importance.empty() ? 1 : importance[i]);
  }
  return sum;
}

std::vector<std::byte> encoded(DType type, const std::vector<float>& x,
                               const std::vector<float>& importance = {}) {
  std::vector<std::byte> bytes(kernels::dtype_bytes(type, x.size()));
  encode(type, x, importance, bytes.data());
  return bytes;
}

bool has_grid(DType type) { return type >= DType::kIQ3_S && type <= DType::kIQ1_M; }

// Returns the factors of errors if no importance is known.
std::vector<float> counts_of(const std::vector<float>& x) {
  std::vector<float> counts(x.size());
  for (size_t at = 0; at < x.size(); at += 256) {
    float squares = 0;
    for (size_t i = at; i < at + 256; ++i) squares += x[i] * x[i];
    for (size_t i = at; i < at + 256; ++i) counts[i] = std::sqrt(squares / 256 + x[i] * x[i]);
  }
  return counts;
}

TEST(Encode, every_type_beats_or_equals_plain_rounding) {
  const std::vector<float> x = weights(256 * 64, 1);
  for (const DType type : block_types()) {
    // These types neglect weights with small factors, so their errors are compared with the same
    // factors.
    const std::vector<float> counts = has_grid(type) ? counts_of(x) : std::vector<float>();
    std::vector<std::byte> plain(kernels::dtype_bytes(type, x.size()));
    tools::encode(type, x.data(), x.size(), plain.data());
    const double ours = error(type, x, encoded(type, x), counts);
    const double theirs = error(type, x, plain, counts);
    // Q8_0 rounds alike. MXFP4 has only a few exponents to choose from, and chooses by weighted
    // error.
    EXPECT_LE(ours, theirs * (type == DType::kMXFP4 ? 1.02 : 1.0001))
        << kernels::dtype_info(type).name;
    if (type != DType::kQ8_0 && type != DType::kMXFP4) {
      EXPECT_LT(ours, theirs * 0.97) << kernels::dtype_info(type).name;
    }
  }
}

TEST(Encode, what_a_type_can_say_exactly_comes_back) {
  for (const DType type : block_types()) {
    // The codes use their whole range, so that the encoder finds the same scales again.
    std::vector<float> x = weights(256 * 16, 2), exact(x.size());
    kernels::to_f32(type, encoded(type, x).data(), x.size(), exact.data());
    double squares = 0;
    for (const float value : exact) squares += double{value} * value;
    EXPECT_LT(std::sqrt(error(type, exact, encoded(type, exact)) / squares),
              has_grid(type) ? 0.06 : 0.02)
        << kernels::dtype_info(type).name;
  }
}

TEST(Encode, columns_that_count_more_have_smaller_errors) {
  const std::vector<float> x = weights(256 * 64, 3);
  std::vector<float> importance(x.size(), 1);
  for (size_t i = 0; i < x.size(); i += 8) importance[i] = 1000;
  for (const DType type : block_types()) {
    if (type == DType::kQ8_0) continue;
    EXPECT_LT(error(type, x, encoded(type, x, importance), importance),
              0.98 * error(type, x, encoded(type, x), importance))
        << kernels::dtype_info(type).name;
  }
}

TEST(Encode, zeros_tiny_and_huge_values_stay_finite) {
  for (const DType type : block_types()) {
    for (const float size : {0.0F, 1e-38F, 1e-30F, 1e-8F, 1e4F, 1e6F, 3e38F}) {
      std::vector<float> x = weights(256, 4);
      for (float& value : x) value = std::clamp(value, -1.0F, 1.0F) * size;
      std::vector<float> again(x.size());
      kernels::to_f32(type, encoded(type, x).data(), x.size(), again.data());
      for (const float value : again) ASSERT_TRUE(std::isfinite(value)) << size;
      if (size == 0) {
        for (const float value : again) ASSERT_EQ(value, 0.0F) << kernels::dtype_info(type).name;
      }
    }
  }
}

TEST(Encode, importance_of_nothing_counts_all_columns) {
  const std::vector<float> x = weights(256 * 4, 5), nothing(x.size(), 0);
  for (const DType type : block_types())
    EXPECT_LT(error(type, x, encoded(type, x, nothing)), 1.3 * error(type, x, encoded(type, x)))
        << kernels::dtype_info(type).name;
}

// Returns the smallest error over 8001 scales: the definition of what fit_scale looks for.
double best_scale_error(const float* x, int half) {
  double best = INFINITY;
  const float most = std::fabs(extreme(x, 32));
  for (int k = -4000; k <= 4000; ++k) {
    const double scale = most / half * k / 2000.0;
    double sum = 0;
    for (int i = 0; i < 32; ++i) {
      const double code =
          scale == 0 ? 0
                     : std::clamp(std::nearbyint(x[i] / scale), double(-half), double(half - 1));
      sum += (x[i] - scale * code) * (x[i] - scale * code);
    }
    best = std::min(best, sum);
  }
  return best;
}

TEST(Fit, a_scale_is_near_the_best_of_all) {
  const std::vector<float> x = weights(32 * 60, 6), w(32, 1);
  for (const int half : {4, 8, 16}) {
    double ours = 0, best = 0;
    for (size_t at = 0; at < x.size(); at += 32) {
      float code[32];
      const float scale = fit_scale<32>(x.data() + at, w.data(), -half, half - 1);
      ours += round_to_scale<32>(x.data() + at, w.data(), scale, -half, half - 1, code);
      best += best_scale_error(x.data() + at, half);
    }
    EXPECT_LT(ours, best * 1.05) << half;
  }
}

}  // namespace
}  // namespace kvick::quantize
