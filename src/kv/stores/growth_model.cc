#include "kv/stores/growth_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace kvick::kv {

double growth_seconds(uint64_t tokens, uint64_t growths, uint64_t token_bytes,
                      const GrowthRates& rates, double step_tokens) {
  const auto n = static_cast<double>(tokens), t = static_cast<double>(growths);
  const auto bytes = static_cast<double>(token_bytes);
  const double copying = bytes * n * (t + 1) / (2 * rates.copy_bytes_s);
  // Attention over existing rows costs b N^2 / 2 in any case; the rest is for spare rows.
  const double spare = rates.attention_bytes_s > 0
                           ? bytes * n * n / step_tokens / t / (2 * rates.attention_bytes_s)
                           : 0;
  return copying + t * rates.growth_s + spare;
}

double ideal_growths(uint64_t tokens, uint64_t token_bytes, const GrowthRates& rates,
                     double step_tokens) {
  KVICK_CHECK(rates.copy_bytes_s > 0, "a machine that copies {} bytes a second",
              rates.copy_bytes_s);
  if (rates.attention_bytes_s <= 0) return 0;
  const auto n = static_cast<double>(tokens), bytes = static_cast<double>(token_bytes);
  const double per_growth = bytes * n / (2 * rates.copy_bytes_s) + rates.growth_s;
  return std::sqrt(bytes * n * n / step_tokens / (2 * rates.attention_bytes_s) / per_growth);
}

uint32_t best_growths(uint32_t tokens, uint64_t token_bytes, const GrowthRates& rates,
                      double step_tokens) {
  const double ideal = ideal_growths(tokens, token_bytes, rates, step_tokens);
  const double power = std::round(std::log2(std::max(1.0, ideal)));
  const uint32_t most = std::bit_floor(std::max(1U, tokens));
  return power >= 31 ? most : std::min(most, uint32_t{1} << static_cast<uint32_t>(power));
}

}  // namespace kvick::kv
