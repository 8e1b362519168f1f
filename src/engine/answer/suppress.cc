#include "engine/answer/suppress.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace kvick::engine {

void suppress(const text::Vocabulary& vocabulary, bool begins, std::span<float> logits) {
  std::vector<std::pair<size_t, float>> changed;  // tokens with their logits
  const auto forbid = [&](const std::vector<text::Token>& tokens) {
    for (const text::Token token : tokens) {
      const auto at = static_cast<size_t>(token);
      if (logits[at] == -INFINITY) continue;
      changed.emplace_back(at, logits[at]);
      logits[at] = -INFINITY;
    }
  };
  forbid(vocabulary.suppressed);
  if (begins) forbid(vocabulary.suppressed_first);
  if (changed.empty()) return;
  if (std::ranges::any_of(logits, [](float logit) { return logit > -INFINITY; })) return;
  for (const auto& [at, logit] : changed) logits[at] = logit;
}

}  // namespace kvick::engine
