#pragma once
// Tells whether repeated measurements change with a variable or only within noise.

#include <span>

namespace kvick::lab {

// A line y = at_zero + slope * x by least squares, and the standard error of the slope: 0 if
// unknown, with fewer than three points or only one x.
struct Trend {
  double at_zero = 0, slope = 0, slope_error = 0;

  // True if the slope is less than two standard errors, so it may be zero.
  bool within_noise() const { return slope <= 2 * slope_error && slope >= -2 * slope_error; }
};

// x and y have the same length.
Trend trend_of(std::span<const double> x, std::span<const double> y);

}  // namespace kvick::lab
