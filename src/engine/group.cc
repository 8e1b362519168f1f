#include "engine/group.h"

#include <algorithm>

namespace kvick::engine {

uint32_t Group::longest() const {
  uint32_t most = 0;
  for (const Lane& lane : lanes) most = std::max(most, lane.length());
  return most;
}

uint32_t Group::common_tokens() const {
  const std::vector<Token>& first = lanes.front().tokens;
  auto common = static_cast<uint32_t>(first.size());
  uint32_t shortest = common;
  bool equal = true;
  for (const Lane& lane : lanes) {
    const auto differ =
        std::mismatch(first.begin(), first.end(), lane.tokens.begin(), lane.tokens.end());
    common = std::min(common, static_cast<uint32_t>(differ.first - first.begin()));
    shortest = std::min(shortest, lane.length());
    equal = equal && lane.tokens == first;
  }
  return equal ? common : std::min(common, shortest - 1);
}

}  // namespace kvick::engine
