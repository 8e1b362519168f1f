#include "engine/answer/beams.h"

#include <algorithm>
#include <cmath>

namespace kvick::engine {

std::vector<Continuation> best_continuations(std::span<const Beam> beams, size_t count) {
  std::vector<Continuation> all;
  for (uint32_t i = 0; i < beams.size(); ++i)
    for (const TokenChance& next : beams[i].next)
      all.push_back({i, next.token, beams[i].score + next.logprob});
  std::stable_sort(all.begin(), all.end(),
                   [](const Continuation& a, const Continuation& b) { return a.score > b.score; });
  if (all.size() > count) all.resize(count);
  return all;
}

double length_normalised(double score, uint32_t tokens, float penalty) {
  return score / std::pow(static_cast<double>(tokens), static_cast<double>(penalty));
}

}  // namespace kvick::engine
