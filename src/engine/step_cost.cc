#include "engine/step_cost.h"

#include <algorithm>

namespace kvick::engine {
namespace {

constexpr double kWeight = 0.1;  // of the newest step
// A step that was interrupted says little of the next one.
constexpr double kMostRise = 1.5;
constexpr double kMemory = 0.99;  // of the moments, a step
// Attended rows squared: where steps differ by less, what they took says nothing of attention.
constexpr double kLeastVariance = 64.0 * 64;
// Of a step at least so much is not attention.
constexpr double kLeastOther = 0.1;

}  // namespace

bool StepCost::fresh(uint32_t rows) const {
  return seen_[rows].times > 0 && steps_ - seen_[rows].at < kForgotten;
}

double StepCost::slope() const { return std::max(0.0, covariance_ / (variance_ + kLeastVariance)); }

double StepCost::at(uint32_t rows, double attended) const {
  const Seen& seen = seen_[rows];
  return std::max(kLeastOther * seen.seconds, seen.seconds + slope() * (attended - seen.attended));
}

void StepCost::observe(const StepShape& shape, double seconds) {
  if (shape.rows == 0 || shape.rows > kMostRows) return;
  Seen& seen = seen_[shape.rows];
  ++steps_;
  seen.at = steps_;
  if (++seen.times == 1) {
    seen.seconds = seconds;
    seen.attended = shape.attended;
    return;
  }
  seconds = std::min(seconds, kMostRise * at(shape.rows, shape.attended));
  const double more = seconds - seen.seconds, further = shape.attended - seen.attended;
  covariance_ = kMemory * covariance_ + more * further;
  variance_ = kMemory * variance_ + further * further;
  // The first few are averaged evenly.
  const double weight = std::max(kWeight, 1.0 / seen.times);
  seen.seconds += weight * more;
  seen.attended += weight * further;
}

double StepCost::seconds(const StepShape& shape) const {
  const uint32_t rows = std::min(shape.rows, kMostRows);
  uint32_t below = rows, above = rows;
  while (below > 0 && !fresh(below)) --below;
  while (above < kMostRows && !fresh(above)) ++above;
  // What was forgotten is better than nothing to begin from.
  if (below == 0) {
    below = rows;
    while (below > 0 && seen_[below].times == 0) --below;
  }
  const double beyond = static_cast<double>(shape.rows) / std::max(rows, 1U);
  const bool ends = above == kMostRows && !fresh(above);
  if (below == 0 && ends) return 0;
  const double high = ends ? 0 : at(above, shape.attended);
  // Less than was ever seen: no cheaper than a share of its rows, and no dearer.
  if (below == 0) return high / (1 + kPresumedSlope * (above - rows) / std::max(rows, 1U));
  const double low = at(below, shape.attended);
  if (ends) {
    const double more = static_cast<double>(rows - below) / below;
    return low * (1 + kPresumedSlope * std::min(more, 1.0) + std::max(more - 1, 0.0)) * beyond;
  }
  if (above == below) return low * beyond;
  return low + (high - low) * (rows - below) / (above - below);
}

void LevelCost::observe(uint32_t levels, double seconds) {
  if (levels == 0) return;
  const double level = seconds / levels;
  seconds_ = seconds_ == 0
                 ? level
                 : seconds_ + kWeight * (std::min(level, kMostRise * seconds_) - seconds_);
}

}  // namespace kvick::engine
