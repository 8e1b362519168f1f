#include "engine/sharing/preemption.h"

#include <algorithm>

namespace kvick::engine {

std::optional<size_t> victim_of(std::span<const Candidate> candidates) {
  std::optional<size_t> best;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& one = candidates[i];
    if (one.freed_bytes == 0) continue;
    if (!best) {
      best = i;
      continue;
    }
    const Candidate& other = candidates[*best];
    const double price = one.seconds() / static_cast<double>(one.freed_bytes);
    const double others = other.seconds() / static_cast<double>(other.freed_bytes);
    if (one.priority != other.priority ? one.priority < other.priority : price < others) best = i;
  }
  return best;
}

}  // namespace kvick::engine
