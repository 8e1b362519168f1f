#include "engine/service_state.h"

#include <algorithm>
#include <numeric>

namespace kvick::engine {

void Histogram::add(double seconds) {
  const auto at = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++counts[static_cast<size_t>(at - kBounds.begin())];
  sum += seconds;
}

uint64_t Histogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

std::string_view job_state_name(JobState state) {
  switch (state) {
    case JobState::kWaiting:
      return "waiting";
    case JobState::kPrompt:
      return "prompt";
    case JobState::kAnswer:
      return "answer";
    case JobState::kSwapped:
      return "swapped";
    case JobState::kEvicted:
      return "evicted";
  }
  return "unknown";
}

}  // namespace kvick::engine
