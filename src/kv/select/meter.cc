#include "kv/select/meter.h"

#include <algorithm>
#include <numeric>

#include "kv/select/row_arithmetic.h"

namespace kvick::kv {

std::optional<uint32_t> checked_view(uint32_t committed, uint32_t fresh, uint32_t views) {
  // The number of the next check; it belongs to this step if its row is below committed + fresh.
  const uint64_t check = (uint64_t{committed} + kTokensACheck - 1) / kTokensACheck;
  if (views == 0 || check * kTokensACheck >= uint64_t{committed} + fresh) return std::nullopt;
  // A stride of about 0.618 * views, coprime to it: consecutive checks lie far apart, and every
  // view comes once per round.
  uint64_t step = std::max<uint64_t>(1, uint64_t{views} * 618 / 1000);
  while (std::gcd(step, uint64_t{views}) != 1) ++step;
  return static_cast<uint32_t>(check * step % views);
}

float lost_mass(const kernels::Table& kernels, const Check& check, const TopRows& top_rows,
                std::span<const uint32_t> chosen, base::Arena& scratch) {
  const size_t fresh = kernels::rows_of(check.fresh);
  const std::span<float> scores = scratch.make<float>(check.count + fresh);
  double lost = 0;
  for (size_t i = 0; i < check.queries.size(); ++i) {
    const std::span<const float> q(check.queries[i], check.head_dim);
    dot_keys(kernels, check.past, q, scores.first(check.count));
    dot_keys(kernels, check.fresh, q, scores.subspan(check.count));
    // The step's first token sees only its own fresh row.
    const double sum =
        softmax_weights(kernels, scores.first(check.count + 1),
                        {.scale = check.scale,
                         .softcap = check.softcap,
                         .sink = check.sinks != nullptr ? check.sinks + i : nullptr});
    double left = 0;
    auto next = chosen.begin();
    for (uint32_t row = top_rows.first; row < top_rows.last; ++row)
      if (next != chosen.end() && *next == row)
        ++next;
      else
        left += scores[row];
    lost += left / sum;
  }
  return static_cast<float>(std::clamp(lost / static_cast<double>(check.queries.size()), 0.0, 1.0));
}

void Meter::add(float lost, const Selection& selection, bool more) {
  sum += lost;
  if (++checks < kSettled) return;
  const double mean = sum / checks, allowed = static_cast<double>(selection.loss) / 1e6;
  if (mean > allowed && more)
    ++level;
  else if (mean < allowed / 2 && level > 0)
    --level;
  checks = 0;
  sum = 0;
}

}  // namespace kvick::kv
