#include "quantize/grid_search.h"

#include <algorithm>

namespace kvick::quantize {
namespace {

float less(float a, float b) { return a < b ? a : b; }  // compilers vectorise this

// The cheapest level of each weight, whether or not they form a point.
template <size_t N, size_t L>
struct Cheapest {
  std::array<unsigned, N> level;
  std::array<float, N> cost;

  explicit Cheapest(const std::array<std::array<float, L>, N>& costs) {
    for (size_t i = 0; i < N; ++i) {
      level[i] = 0;
      cost[i] = costs[i][0];
      for (unsigned k = 1; k < L; ++k) {
        level[i] = costs[i][k] < cost[i] ? k : level[i];
        cost[i] = less(costs[i][k], cost[i]);
      }
    }
  }
  uint16_t point() const {
    unsigned all = 0;
    for (size_t i = 0; i < N; ++i) all |= level[i] << GridSearch<N, L>::kBits * i;
    return static_cast<uint16_t>(all);
  }
  float from(size_t begin) const {  // cost of the weights from this one on
    float all = 0;
    for (size_t i = begin; i < N; ++i) all += cost[i];
    return all;
  }
};

template <size_t A>
using Table = std::array<float, A>;

template <size_t A>
void add_all(const Table<A>& a, const Table<A>& b, Table<A * A>& out) {
  for (size_t i = 0; i < A; ++i)
    for (size_t j = 0; j < A; ++j) out[A * i + j] = a[i] + b[j];
}
// a1, b1: costs with exactly one weight flipped.
template <size_t A>
void add_flipped(const Table<A>& a, const Table<A>& a1, const Table<A>& b, const Table<A>& b1,
                 Table<A * A>& out) {
  for (size_t i = 0; i < A; ++i)
    for (size_t j = 0; j < A; ++j) out[A * i + j] = less(a1[i] + b[j], a[i] + b1[j]);
}

// For one half of a point's weights: the cost of each combination of levels (`all`); the same if
// exactly one weight, the cheapest, costs what `flipped` says (`one`); and the cost of each
// combination of the first half of these weights (`quarter`).
template <size_t N, size_t L>
struct Half {
  static constexpr size_t kQuarter = N == 8 ? L * L : L;
  Table<kQuarter> quarter;
  Table<kQuarter * kQuarter> all, one;

  void tabulate(const Table<L>* c) {
    if constexpr (N == 4) {
      quarter = c[0];
      add_all(c[0], c[1], all);
    } else {
      Table<kQuarter> other;
      add_all(c[0], c[1], quarter);
      add_all(c[2], c[3], other);
      add_all(quarter, other, all);
    }
  }
  void tabulate_flipped(const Table<L>* c, const Table<L>* f) {
    if constexpr (N == 4) {
      add_flipped(c[0], f[0], c[1], f[1], one);
    } else {
      Table<kQuarter> other, quarter1, other1;
      add_all(c[2], c[3], other);
      add_flipped(c[0], f[0], c[1], f[1], quarter1);
      add_flipped(c[2], f[2], c[3], f[3], other1);
      add_flipped(quarter, quarter1, other, other1, one);
    }
  }
};

}  // namespace

template <size_t N, size_t L>
GridSearch<N, L>::GridSearch(std::span<const uint16_t> points) {
  for (size_t first = 0; first < kHalf; ++first) {
    begin_[first] = static_cast<uint16_t>(points_.size());
    for (const uint16_t point : points) {
      if (half_of(point, 0) != first) continue;
      has_[point] = true;
      points_.push_back(point);
      second_.push_back(static_cast<uint8_t>(half_of(point, N / 2)));
    }
  }
  begin_[kHalf] = static_cast<uint16_t>(points_.size());
}

template <size_t N, size_t L>
size_t GridSearch<N, L>::half_of(uint16_t point, size_t from) {
  size_t digits = 0;
  for (size_t i = from; i < from + N / 2; ++i) digits = digits * L + level_of(point, i);
  return digits;
}

template <size_t N, size_t L>
template <typename OfQuarter, typename OfHalf, typename OfPoint>
auto GridSearch<N, L>::search(size_t likely, const OfQuarter& quarter_bound,
                              const OfHalf& half_bound, const OfPoint& cost_of) const -> Choice {
  Choice best;
  size_t at = 0;
  const auto scan = [&](size_t a) {
    for (size_t i = begin_[a]; i < begin_[a + 1]; ++i) {
      const float cost = cost_of(a, second_[i]);
      at = cost < best.cost ? i : at;
      best.cost = less(cost, best.cost);
    }
  };
  scan(likely);
  for (size_t q = 0; q < kQuarter; ++q) {
    if (!(quarter_bound(q) < best.cost)) continue;
    for (size_t a = kQuarter * q; a < kQuarter * (q + 1); ++a)
      if (half_bound(a) < best.cost) scan(a);
  }
  best.point = points_[at];
  return best;
}

template <size_t N, size_t L>
auto GridSearch<N, L>::nearest(const Costs& costs) const -> Choice {
  const Cheapest<N, L> free(costs);
  if (has_[free.point()]) return {.point = free.point(), .cost = free.from(0)};
  Half<N, L> first, second;
  first.tabulate(&costs[0]);
  second.tabulate(&costs[N / 2]);
  const float behind_quarter = free.from(N / 4), behind_half = free.from(N / 2);
  return search(
      half_of(free.point(), 0), [&](size_t q) { return first.quarter[q] + behind_quarter; },
      [&](size_t a) { return first.all[a] + behind_half; },
      [&](size_t a, size_t b) { return first.all[a] + second.all[b]; });
}

template <size_t N, size_t L>
auto GridSearch<N, L>::nearest_flipped(const Costs& costs, const Costs& flipped) const -> Choice {
  Cheapest<N, L> free(costs);
  const Cheapest<N, L> free_flipped(flipped);
  const float behind_quarter = free.from(N / 4), behind_half = free.from(N / 2);
  // The least that a flip adds, in the second half and in all weights.
  float of_half = std::numeric_limits<float>::infinity(), of_all = of_half;
  size_t cheapest = 0;
  for (size_t i = N; i-- > 0;) {
    const float more = free_flipped.cost[i] - free.cost[i];
    if (more < of_all) of_all = more, cheapest = i;
    if (i == N / 2) of_half = of_all;
  }
  const size_t likely = half_of(free.point(), 0);
  free.level[cheapest] = free_flipped.level[cheapest];
  if (has_[free.point()]) return {.point = free.point(), .cost = free.from(0) + of_all};
  Half<N, L> first, second;
  first.tabulate(&costs[0]);
  second.tabulate(&costs[N / 2]);
  first.tabulate_flipped(&costs[0], &flipped[0]);
  second.tabulate_flipped(&costs[N / 2], &flipped[N / 2]);
  return search(
      likely, [&](size_t q) { return first.quarter[q] + behind_quarter; },
      [&](size_t a) { return behind_half + less(first.all[a] + of_half, first.one[a]); },
      [&](size_t a, size_t b) {
        return less(first.all[a] + second.one[b], first.one[a] + second.all[b]);
      });
}

template class GridSearch<8, 3>;
template class GridSearch<4, 8>;

}  // namespace kvick::quantize
