#include "engine/answer/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace kvick::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool included)
    : stops_(std::move(stops)), included_(included) {
  std::erase(stops_, std::string());
}

// Returns how many bytes at the end of pending_ begin some stop string.
size_t StopMatcher::held_suffix() const {
  size_t held = 0;
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > held; --n)
      if (pending_.ends_with(std::string_view(stop).substr(0, n))) {
        held = n;
        break;
      }
  return held;
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  pending_ += text;
  // The stop string that is complete first, and of those the longest, is the same however the text
  // is cut into pieces. The one that begins first is not: a shorter one may end before it is whole.
  size_t first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = pending_.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (end < first_end || (end == first_end && stop.size() > matched_.size()))
      first_end = end, matched_ = stop;
  }
  stopped_ = first_end != std::string::npos;
  const size_t certain =
      stopped_ ? first_end - (included_ ? 0 : matched_.size()) : pending_.size() - held_suffix();
  std::string out = pending_.substr(0, certain);
  pending_.erase(0, certain);
  return out;
}

std::string StopMatcher::finish() { return stopped_ ? std::string() : std::exchange(pending_, {}); }

}  // namespace kvick::engine
