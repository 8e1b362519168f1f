#include "engine/sampling/mirostat.h"

#include <cmath>

namespace kvick::engine {
namespace {

// The exponent s of p(i) ~ 1 / i^s: least squares of log(p(i) / p(i + 1)) over log((i + 1) / i).
double zipf_exponent(std::span<const float> descending) {
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < descending.size() && std::isfinite(descending[i + 1]); ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double b = double{descending[i]} - double{descending[i + 1]};
    products += t * b;
    squares += t * t;
  }
  return products / squares;  // NaN if there is one token
}

}  // namespace

size_t Mirostat::most_tokens(std::span<const float> descending, size_t vocab) const {
  const double s = zipf_exponent(descending), epsilon = s - 1;
  const auto n = static_cast<double>(vocab);
  // epsilon / (1 - n^-epsilon); its limit for epsilon = 0 is 1 / log(n).
  const double factor =
      std::abs(epsilon) < 1e-9 ? 1 / std::log(n) : epsilon / (1 - std::pow(n, -epsilon));
  const double k = std::pow(factor * std::exp2(mu_), 1 / s);
  if (!(k > 1)) return 1;
  return k < n ? static_cast<size_t>(k) : vocab;
}

double Mirostat::least_share() const { return std::exp2(-mu_); }

void Mirostat::observe(double share) {
  mu_ -= double{settings_.eta} * (-std::log2(share) - double{settings_.tau});
}

}  // namespace kvick::engine
