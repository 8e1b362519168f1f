#include "engine/core/step_cost.h"

#include <algorithm>
#include <bit>

namespace kvick::engine {
namespace {

constexpr double kWeight = 0.1;  // of the newest step
// Limits a step that was interrupted, since it says little about the next one.
constexpr double kMostRise = 1.5;
constexpr double kMemory = 0.99;  // decay of the moments with each step
// In attended rows squared: when steps differ by less, their times say nothing about attention.
constexpr double kLeastVariance = 64.0 * 64;
// Smallest share of a step's time that is not attention.
constexpr double kLeastOther = 0.1;

}  // namespace

uint32_t StepCost::sort_of(uint32_t rows) {
  if (rows <= 8) return rows;
  const auto octave = static_cast<uint32_t>(std::bit_width(rows - 1)) - 1;  // 9 to 16: 3
  const uint32_t quarter = (rows - 1 - (1U << octave)) >> (octave - 2);
  return 9 + 4 * (octave - 3) + quarter;
}

bool StepCost::fresh(const Seen& seen) const {
  return seen.times > 0 && steps_ - seen.at < kForgotten >> (kFew - std::min(kFew, seen.times));
}

double StepCost::slope() const { return std::max(0.0, covariance_ / (variance_ + kLeastVariance)); }

double StepCost::at(const Seen& seen, double attended) const {
  return std::max(kLeastOther * seen.seconds, seen.seconds + slope() * (attended - seen.attended));
}

void StepCost::observe(const StepShape& shape, double seconds) {
  if (shape.rows == 0 || shape.rows > kMostRows) return;
  Seen& seen = seen_[sort_of(shape.rows)];
  seen.at = ++steps_;
  if (++seen.times < kFew) {
    if (seen.times == 1 || seconds < at(seen, shape.attended)) {
      seen.rows = shape.rows;
      seen.seconds = seconds;
      seen.attended = shape.attended;
    }
    return;
  }
  seconds = std::min(seconds, kMostRise * at(seen, shape.attended));
  const double more = seconds - seen.seconds, further = shape.attended - seen.attended;
  covariance_ = kMemory * covariance_ + more * further;
  variance_ = kMemory * variance_ + further * further;
  seen.seconds += kWeight * more;
  seen.attended += kWeight * further;
  seen.rows += kWeight * (shape.rows - seen.rows);
}

double StepCost::seconds(const StepShape& shape) const {
  struct Point {
    double rows = 0, seconds = 0;
  };
  const double rows = std::min(shape.rows, kMostRows);
  Point below, above, forgotten;
  for (const Seen& seen : seen_) {
    if (seen.times == 0) continue;
    const Point point = {seen.rows, std::max(below.seconds, at(seen, shape.attended))};
    if (fresh(seen) && seen.rows > rows) {
      above = point;
      break;
    }
    if (seen.rows <= rows) (fresh(seen) ? below : forgotten) = point;
  }
  if (below.rows == 0) below = forgotten;  // an expired measurement is better than none
  if (below.rows == 0 && above.rows == 0) return 0;
  const auto presumed = [](double n) { return 1 + kPresumedSlope * n; };
  if (below.rows == 0) return above.seconds * presumed(rows) / presumed(above.rows);
  const double more = rows - below.rows;
  if (above.rows > 0)
    return below.seconds + (above.seconds - below.seconds) * more / (above.rows - below.rows);
  return below.seconds * presumed(rows) / presumed(below.rows) * std::max(1.0, shape.rows / rows);
}

void LevelCost::observe(uint32_t levels, double seconds) {
  if (levels == 0) return;
  const double level = seconds / levels;
  seconds_ = seconds_ == 0
                 ? level
                 : seconds_ + kWeight * (std::min(level, kMostRise * seconds_) - seconds_);
}

}  // namespace kvick::engine
