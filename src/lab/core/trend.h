#pragma once
// Whether repeated measurements really change with a variable, or only within noise.

#include <span>

namespace kvick::lab {

// y = at_zero + slope * x by least squares, and the standard error of the slope: 0 where fewer than
// three points or only one x leave it unknown.
struct Trend {
  double at_zero = 0, slope = 0, slope_error = 0;

  // The slope cannot be told from none: it is less than two of its standard errors.
  bool within_noise() const { return slope <= 2 * slope_error && slope >= -2 * slope_error; }
};

// x and y have the same length.
Trend trend_of(std::span<const double> x, std::span<const double> y);

}  // namespace kvick::lab
