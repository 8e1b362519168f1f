#pragma once
// Finds the grid point with the smallest cost, exactly. A point's cost is a sum over its weights.
// If the cheapest levels of all weights form a point of the grid, that point is the result.
// Otherwise each point is split into two halves, and the costs of all halves are tabulated. Points
// with the same first half form a list; a lower bound on the cost of the second half excludes most
// lists.

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace kvick::quantize {

// A point has N weights at one of L levels each: 8 at one of 3, or 4 at one of 8. Points are
// numbers as in kernels/formats/grids.h, with 2 or 3 bits per weight.
template <size_t N, size_t L>
class GridSearch {
 public:
  static constexpr size_t kBits = N == 8 ? 2 : 3;
  using Costs = std::array<std::array<float, L>, N>;  // [weight][level]
  struct Choice {
    uint16_t point = 0;
    float cost = std::numeric_limits<float>::infinity();
  };

  explicit GridSearch(std::span<const uint16_t> points);

  Choice nearest(const Costs& costs) const;
  // Does the same, but exactly one weight has its cost from `flipped`: the one that makes the sum
  // smallest. No cost in `flipped` may be below that in `costs`.
  Choice nearest_flipped(const Costs& costs, const Costs& flipped) const;

  static size_t level_of(uint16_t point, size_t weight) {
    return point >> kBits * weight & ((1U << kBits) - 1);
  }

 private:
  static constexpr size_t kQuarter = N == 8 ? L * L : L, kHalf = kQuarter * kQuarter;

  // Returns the levels of half a point as digits of a number; the first weight's digit is the
  // highest.
  static size_t half_of(uint16_t point, size_t from);
  // Each bound must be at most the cost of any point that begins with that quarter or half.
  template <typename OfQuarter, typename OfHalf, typename OfPoint>
  Choice search(size_t likely, const OfQuarter& quarter_bound, const OfHalf& half_bound,
                const OfPoint& cost_of) const;

  std::bitset<size_t{1} << kBits * N> has_;
  std::array<uint16_t, kHalf + 1> begin_{};  // start of each list in points_, by first half
  std::vector<uint16_t> points_;
  std::vector<uint8_t> second_;  // [points_] the second half of each
};

}  // namespace kvick::quantize
