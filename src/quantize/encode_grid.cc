// value = d * scale[group] * level: d is a float16 per 256 weights, scales are odd and positive,
// and levels are those of a point of the type's grid, with signs. For a given d and scale the best
// point of each 4 or 8 weights is found exactly (grid_search.h). Scales and d are found by trial.

#include "quantize/encode_grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "quantize/fit.h"
#include "quantize/grid_search.h"

#include "base/check.h"
#include "kernels/formats/codebooks.h"
#include "kernels/formats/grids.h"

namespace kvick::quantize {
namespace {

using kernels::BlockCodes;
using kernels::DType;

// A group with smaller weights than this becomes zeros.
constexpr float kTiny = 1e-30F;

// Sums of w * x * q and w * q * q over weights with levels q.
struct Sums {
  float xq = 0, qq = 0;
  void add(float w, float x, float q) { xq += w * x * q, qq += w * q * q; }
  float scale() const { return qq > 0 ? xq / qq : 0; }
  float gain() const { return xq > 0 ? xq * xq / qq : 0; }
  // The error of scale * q minus the error of all zeros.
  float error(float scale) const { return scale * (scale * qq - 2 * xq); }
};

// How the signs of a group's weights are stored.
enum class Signs : uint8_t {
  kAll,     // one per weight
  kEven,    // an even number of each 8 weights is negative
  kOf32,    // IQ1: one sign of the added constant per 32 weights
  kOfEight  // IQ1: one sign of the added constant per 8 weights
};

// -- points with signs ----------------------------------------------------------------------------

// N: weights per point. L: number of levels without sign.
template <size_t N, size_t L>
struct SignedGrid {
  GridSearch<N, L> search;
  std::array<float, L> level{};
  static constexpr int kSignBit = static_cast<int>(GridSearch<N, L>::kBits);

  SignedGrid(std::span<const uint16_t> points, const kernels::Codebook& book, float unit)
      : search(points) {
    for (size_t i = 0; i < L; ++i) level[i] = static_cast<float>(book.u[i] - book.zero) * unit;
  }

  using Costs = typename GridSearch<N, L>::Costs;
  using Choice = typename GridSearch<N, L>::Choice;

  // Computes w * (|x| / scale - level)^2 without the term that does not depend on the level.
  void costs(const float* x, const float* w, float inverse, float sign, Costs& out) const {
    for (size_t i = 0; i < N; ++i) {
      const float twice = 2 * sign * std::fabs(x[i]) * inverse;
      for (size_t k = 0; k < L; ++k) out[i][k] = w[i] * level[k] * (level[k] - twice);
    }
  }
  // Returns the weight of a point whose sign flips at the least cost.
  size_t cheapest_flip(const float* x, const float* w, uint16_t point) const {
    size_t best = 0;
    float cost = std::numeric_limits<float>::infinity();
    for (size_t i = 0; i < N; ++i) {
      const float more = w[i] * std::fabs(x[i]) * level[GridSearch<N, L>::level_of(point, i)];
      if (more < cost) cost = more, best = i;
    }
    return best;
  }
  // flipped: the weight with the wrong sign; N: none.
  void put(const float* x, const float* w, uint16_t point, size_t flipped, int* code,
           Sums& sums) const {
    for (size_t i = 0; i < N; ++i) {
      const size_t k = GridSearch<N, L>::level_of(point, i);
      const bool negative = (x[i] < 0) != (i == flipped);
      code[i] = static_cast<int>(k) | (negative ? 1 << kSignBit : 0);
      sums.add(w[i], x[i], negative ? -level[k] : level[k]);
    }
  }

  // Encodes eight weights. If their number of negative signs must be even but is odd, one sign is
  // flipped, where that costs least.
  void choose(const float* x, const float* w, float inverse, bool even, int* code,
              Sums& sums) const {
    const bool flip = even && std::count_if(x, x + 8, [](float v) { return v < 0; }) % 2 != 0;
    std::array<Choice, 8 / N> right, wrong;
    for (size_t p = 0; p < 8 / N; ++p) {
      Costs plain, flipped;
      costs(x + N * p, w + N * p, inverse, 1, plain);
      if (!flip || N < 8) right[p] = search.nearest(plain);
      if (!flip) continue;
      costs(x + N * p, w + N * p, inverse, -1, flipped);
      wrong[p] = search.nearest_flipped(plain, flipped);
    }
    size_t in = flip ? 0 : 8 / N;  // the point with the flipped sign
    if constexpr (N < 8)
      if (flip && wrong[1].cost - right[1].cost < wrong[0].cost - right[0].cost) in = 1;
    for (size_t p = 0; p < 8 / N; ++p) {
      const float *px = x + N * p, *pw = w + N * p;
      const uint16_t point = (p == in ? wrong : right)[p].point;
      put(px, pw, point, p == in ? cheapest_flip(px, pw, point) : N, code + N * p, sums);
    }
  }
};

const SignedGrid<8, 3>& eights(DType type) {
  constexpr float kUnit = 0.125F;
  static const SignedGrid<8, 3> s(kernels::kIq2SGrid, kernels::kGrid3, kUnit),
      xs(kernels::kIq2XsGrid, kernels::kGrid3, kUnit),
      xxs(kernels::kIq2XxsGrid, kernels::kGrid3, kUnit);
  return type == DType::kIQ2_S ? s : type == DType::kIQ2_XS ? xs : xxs;
}
const SignedGrid<4, 8>& fours(DType type) {
  static const SignedGrid<4, 8> s(kernels::kIq3SGrid, kernels::kOdd4, 1),
      xxs(kernels::kIq3XxsGrid, kernels::kGrid4, 0.5F);
  return type == DType::kIQ3_S ? s : xxs;
}

// -- points of IQ1 --------------------------------------------------------------------------------

constexpr float kAdded = 0.125F;

const GridSearch<8, 3>& ternary_grid() {
  static const GridSearch<8, 3> search(kernels::kIq1Grid);
  return search;
}

// Encodes eight weights as -1, 0 or 1 plus `added`. Returns the error minus that of all zeros.
float choose_ternary(const float* x, const float* w, float inverse, float added, int* code,
                     Sums& sums) {
  GridSearch<8, 3>::Costs costs;
  for (size_t i = 0; i < 8; ++i)
    for (size_t k = 0; k < 3; ++k) {
      const float level = static_cast<float>(k) - 1 + added;
      costs[i][k] = w[i] * level * (level - 2 * x[i] * inverse);
    }
  const auto [point, cost] = ternary_grid().nearest(costs);
  for (size_t i = 0; i < 8; ++i) {
    const int k = point >> 2 * i & 3;
    code[i] = k | (added < 0 ? 4 : 0);
    sums.add(w[i], x[i], static_cast<float>(k) - 1 + added);
  }
  return cost;
}

// Encodes n weights that share the sign of the added constant.
void choose_added(const float* x, const float* w, size_t n, float inverse, int* code, Sums& sums) {
  float least = std::numeric_limits<float>::infinity();
  Sums best;
  for (const float added : {kAdded, -kAdded}) {
    std::array<int, kSmall> tried{};
    Sums of_tried;
    float cost = 0;
    for (size_t i = 0; i < n; i += 8)
      cost += choose_ternary(x + i, w + i, inverse, added, tried.data() + i, of_tried);
    if (cost >= least) continue;
    least = cost;
    best = of_tried;
    std::copy_n(tried.begin(), n, code);
  }
  sums.xq += best.xq, sums.qq += best.qq;
}

// -- blocks ---------------------------------------------------------------------------------------

struct Form {
  DType type;
  Signs signs;
  int top;       // the largest scale
  size_t group;  // weights per scale
  float most;    // the largest level
  // The scales that are tried are the largest weight / `most`, times `low` to `high`.
  float low, high;
};
constexpr Form kForms[] = {
    {DType::kIQ3_S, Signs::kAll, 31, 32, 15, 0.75F, 1.25F},
    {DType::kIQ3_XXS, Signs::kEven, 31, 32, 15.5F, 0.75F, 1.25F},
    {DType::kIQ2_S, Signs::kAll, 31, 16, 5.375F, 0.6F, 1.25F},
    {DType::kIQ2_XS, Signs::kEven, 31, 16, 5.375F, 0.6F, 1.25F},
    {DType::kIQ2_XXS, Signs::kEven, 31, 32, 5.375F, 0.6F, 1.25F},
    {DType::kIQ1_S, Signs::kOf32, 15, 32, 1.125F, 0.35F, 1.1F},
    {DType::kIQ1_M, Signs::kOfEight, 15, 16, 1.125F, 0.4F, 1.1F},
};
const Form& form_of(DType type) {
  for (const Form& form : kForms)
    if (form.type == type) return form;
  KVICK_CHECK(false, "{} is no type that is written", kernels::dtype_info(type).name);
}

// Finds the codes of a group for a scale, and returns their sums.
Sums choose_codes(const Form& form, const float* x, const float* w, float scale, int* code) {
  Sums sums;
  const float inverse = scale > kTiny ? 1 / scale : 0;
  const bool even = form.signs == Signs::kEven;
  if (form.signs == Signs::kOf32) {
    choose_added(x, w, form.group, inverse, code, sums);
    return sums;
  }
  for (size_t i = 0; i < form.group; i += 8) {
    if (form.signs == Signs::kOfEight)
      choose_added(x + i, w + i, 8, inverse, code + i, sums);
    else if (form.type == DType::kIQ3_S || form.type == DType::kIQ3_XXS)
      fours(form.type).choose(x + i, w + i, inverse, even, code + i, sums);
    else
      eights(form.type).choose(x + i, w + i, inverse, even, code + i, sums);
  }
  return sums;
}

class Filler {
 public:
  Filler(const Form& form, const float* x, const float* w)
      : form_(form), groups_(kSuper / form.group), x_(x), w_(w) {}

  void fill(BlockCodes& block) {
    for (size_t g = 0; g < groups_; ++g) try_scales(g);
    const float most = *std::max_element(wanted_.begin(), wanted_.begin() + groups_);
    const float d = put_half(best_d(most), block.d);
    if (d <= 0) return zero(block);
    const Sums sums = choose(d, block);
    // Tries the least-squares d for these scales and codes once, with the scales and codes that fit
    // it best. A further round gains less than 0.02 % of the error.
    BlockCodes again;
    const float fitted = put_half(sums.scale(), again.d);
    if (fitted > 0 && choose(fitted, again).error(fitted) < sums.error(d)) block = again;
  }

 private:
  // The number of scales tried per group. 12 or 20 gain less than 0.1 % of the error.
  static constexpr size_t kTried = 7;
  // The values of d that are tried, relative to the d at which the largest scale has the largest
  // code.
  static constexpr int kDs = 24;
  static constexpr float kLowD = 0.8F, kStepD = 0.03F;

  // Computes the sums of the codes for each scale that is tried, and the best scale.
  void try_scales(size_t g) {
    const float* x = x_ + form_.group * g;
    const float* w = w_ + form_.group * g;
    wanted_[g] = 0;
    const float most = std::fabs(extreme(x, form_.group)) / form_.most;
    if (most < kTiny) return;
    float gain = 0;
    const float step = std::pow(form_.high / form_.low, 1 / static_cast<float>(kTried - 2));
    float scale = most * form_.low;
    for (size_t k = 0; k < kTried; ++k, scale *= step) {
      std::array<int, kSmall> code;
      // The last scale is the best so far, fitted to its codes.
      tried_[g][k] = choose_codes(form_, x, w, k + 1 < kTried ? scale : wanted_[g], code.data());
      if (tried_[g][k].gain() <= gain) continue;
      gain = tried_[g][k].gain();
      wanted_[g] = tried_[g][k].scale();
    }
  }

  // Returns the two odd numbers next to a group's scale, or one of them twice.
  std::array<int, 2> near(size_t g, float d) const {
    const float at = (divide(wanted_[g], d) - 1) / 2;
    const int last = form_.top / 2;
    return {2 * nearest(std::floor(at), 0, last) + 1, 2 * nearest(std::floor(at) + 1, 0, last) + 1};
  }

  // Returns the error of all groups for d, minus that of all zeros, over the codes in tried_.
  float error_of(float d) const {
    float all = 0;
    for (size_t g = 0; g < groups_; ++g) {
      float least = std::numeric_limits<float>::infinity();
      for (const int scale : near(g, d))
        for (const Sums& sums : tried_[g])
          least = std::min(least, sums.error(d * static_cast<float>(scale)));
      all += least;
    }
    return all;
  }

  float best_d(float most) const {
    float best = 0, least = std::numeric_limits<float>::infinity();
    for (int k = 0; k < kDs; ++k) {
      const float d =
          most / static_cast<float>(form_.top) * (kLowD + kStepD * static_cast<float>(k));
      const float error = error_of(d);
      if (error < least) least = error, best = d;
    }
    return best;
  }

  // Chooses scales and codes of all groups for d.
  Sums choose(float d, BlockCodes& block) const {
    Sums all;
    for (size_t g = 0; g < groups_; ++g) {
      float least = std::numeric_limits<float>::infinity();
      Sums best;
      for (const int scale : near(g, d)) {
        if (scale == block.scale[g]) continue;
        std::array<int, kSmall> code;
        const float times = static_cast<float>(scale);
        const Sums sums =
            choose_codes(form_, x_ + form_.group * g, w_ + form_.group * g, d * times, code.data());
        const float error = sums.error(d * times);
        if (error >= least) continue;
        least = error;
        best = {.xq = sums.xq * times, .qq = sums.qq * times * times};
        block.scale[g] = scale;
        std::copy_n(code.begin(), form_.group,
                    block.code.begin() + static_cast<ptrdiff_t>(form_.group * g));
      }
      all.xq += best.xq, all.qq += best.qq;
    }
    return all;
  }

  // All weights are zero, or too small for any float16, so any point of the grid will do.
  void zero(BlockCodes& block) const {
    block.d = 0;
    for (size_t g = 0; g < groups_; ++g) {
      block.scale[g] = 1;
      choose_codes(form_, x_ + form_.group * g, w_ + form_.group * g, 0,
                   block.code.data() + form_.group * g);
    }
  }

  const Form& form_;
  const size_t groups_;
  const float *x_, *w_;
  std::array<float, 16> wanted_{};
  std::array<std::array<Sums, kTried>, 16> tried_{};
};

}  // namespace

void fill_grid(DType type, const float* x, const float* w, BlockCodes& block) {
  Filler(form_of(type), x, w).fill(block);
}

// The weights of largest magnitude get non-zero codes. Running sums in descending order find the
// number of them with the smallest error.
void fill_ternary(const float* x, const float* w, BlockCodes& block) {
  std::array<size_t, kSuper> order;
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::fabs(x[a]) > std::fabs(x[b]); });
  Sums sums, best;
  for (const size_t i : order) {
    sums.add(w[i], std::fabs(x[i]), 1);
    if (sums.gain() > best.gain()) best = sums;
  }
  const float d = put_half(best.scale(), block.d);
  for (size_t i = 0; i < kSuper; ++i)
    block.code[i] = 1 + (std::fabs(x[i]) > d / 2 && d > 0 ? (x[i] < 0 ? -1 : 1) : 0);
}

}  // namespace kvick::quantize
