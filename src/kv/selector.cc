#include "kv/selector.h"

#include <algorithm>

namespace kvick::kv {

std::span<const uint32_t> highest(std::span<const float> scores, uint32_t take,
                                  base::Arena& scratch) {
  if (take == 0) return {};
  const std::span<float> copy = scratch.make<float>(scores.size());
  std::copy(scores.begin(), scores.end(), copy.begin());
  std::nth_element(copy.begin(), copy.begin() + (take - 1), copy.end(), std::greater<>());
  const float least = copy[take - 1];
  // Of scores equal to the least one that is taken, so many.
  const auto above = static_cast<uint32_t>(
      std::count_if(copy.begin(), copy.begin() + take, [&](float x) { return x > least; }));
  uint32_t equal = take - above, n = 0;
  const std::span<uint32_t> taken = scratch.make<uint32_t>(take);
  for (uint32_t i = 0; i < scores.size() && n < take; ++i) {
    if (scores[i] > least || (scores[i] == least && equal > 0)) {
      if (scores[i] == least) --equal;
      taken[n++] = i;
    }
  }
  return taken.first(n);
}

}  // namespace kvick::kv
