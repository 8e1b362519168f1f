#include "engine/step_cost.h"

#include <algorithm>

namespace kvick::engine {
namespace {

constexpr double kWeight = 0.1;  // of the newest step
// A step that was interrupted says little of the next one.
constexpr double kMostRise = 1.5;

}  // namespace

void StepCost::observe(uint32_t rows, double seconds) {
  if (rows == 0 || rows > kMostRows) return;
  Seen& seen = seen_[rows];
  ++seen.times;
  if (seen.times == 1) {
    seen.seconds = seconds;
    return;
  }
  // The first few are averaged evenly.
  const double weight = std::max(kWeight, 1.0 / seen.times);
  seen.seconds += weight * (std::min(seconds, kMostRise * seen.seconds) - seen.seconds);
}

double StepCost::seconds(uint32_t rows) const {
  const uint32_t at = std::min(rows, kMostRows);
  uint32_t below = at, above = at;
  while (below > 0 && seen_[below].times == 0) --below;
  while (above < kMostRows && seen_[above].times == 0) ++above;
  const double low = seen_[below].seconds, high = seen_[above].seconds;
  const double beyond = static_cast<double>(rows) / std::max(at, 1U);
  if (below == 0 && high == 0) return 0;
  // Less than was ever seen: no cheaper than a share of its rows, and no dearer.
  if (below == 0) return high / (1 + kPresumedSlope * (above - at) / std::max(at, 1U));
  if (high == 0) return low * (1 + kPresumedSlope * (at - below) / below) * beyond;
  if (above == below) return low * beyond;
  return low + (high - low) * (at - below) / (above - below);
}

}  // namespace kvick::engine
