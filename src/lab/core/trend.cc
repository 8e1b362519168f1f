#include "lab/core/trend.h"

#include <cmath>

#include "plan/forecast/growth_rates.h"

namespace kvick::lab {

Trend trend_of(std::span<const double> x, std::span<const double> y) {
  const plan::Line line = plan::fit_line(x, y);
  Trend trend = {.at_zero = line.at_zero, .slope = line.slope};
  double mean = 0;
  for (const double one : x) mean += one / static_cast<double>(x.size());
  double spread = 0, residual = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double off = y[i] - line.at_zero - line.slope * x[i];
    spread += (x[i] - mean) * (x[i] - mean);
    residual += off * off;
  }
  if (x.size() > 2 && spread > 0)
    trend.slope_error = std::sqrt(residual / static_cast<double>(x.size() - 2) / spread);
  return trend;
}

}  // namespace kvick::lab
