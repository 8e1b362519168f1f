#pragma once
// Exact search for the grid point with the smallest cost, which is a sum over its weights. If the
// cheapest levels of all weights form a point of the grid, it is that one. Else points are cut into
// two halves, the costs of all halves are tabulated, and most lists of points with a common first
// half are ruled out by a lower bound on the cost of the second.

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace kvick::quantize {

// N weights to a point, each at one of L levels: 8 at one of 3, or 4 at one of 8. Points are
// numbers as kernels/formats/grids.h has them, with 2 bits of each weight's level or 3.
template <size_t N, size_t L>
class GridSearch {
 public:
  static constexpr size_t kBits = N == 8 ? 2 : 3;
  using Costs = std::array<std::array<float, L>, N>;  // of each weight at each level
  struct Choice {
    uint16_t point = 0;
    float cost = std::numeric_limits<float>::infinity();
  };

  explicit GridSearch(std::span<const uint16_t> points);

  Choice nearest(const Costs& costs) const;
  // The same, but exactly one weight, the one that makes the sum smallest, costs what `flipped`
  // says. No cost in `flipped` may be below that in `costs`.
  Choice nearest_flipped(const Costs& costs, const Costs& flipped) const;

  static size_t level_of(uint16_t point, size_t weight) {
    return point >> kBits * weight & ((1U << kBits) - 1);
  }

 private:
  static constexpr size_t kQuarter = N == 8 ? L * L : L, kHalf = kQuarter * kQuarter;

  // The levels of half of a point as digits of a number, the first weight's the highest.
  static size_t half_of(uint16_t point, size_t from);
  // Each bound is at most the cost of any point that begins with a quarter, or a half.
  template <typename OfQuarter, typename OfHalf, typename OfPoint>
  Choice search(size_t likely, const OfQuarter& quarter_bound, const OfHalf& half_bound,
                const OfPoint& cost_of) const;

  std::bitset<size_t{1} << kBits * N> has_;
  std::array<uint16_t, kHalf + 1> begin_{};  // of each list
  std::vector<uint16_t> points_;
  std::vector<uint8_t> second_;  // the second half of each
};

}  // namespace kvick::quantize
