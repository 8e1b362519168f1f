#include "engine/answer/token_report.h"

#include <algorithm>
#include <cmath>

namespace kvick::engine {

double log_mass(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum);
}

TokenReport report_of(std::span<const float> logits, Token token, uint32_t top) {
  const double logit = logits[static_cast<size_t>(token)];
  return {.chosen = {token, static_cast<float>(logit - log_mass(logits))},
          .top = likeliest(logits, top)};
}

std::vector<TokenChance> likeliest(std::span<const float> logits, size_t count) {
  count = std::min(count, logits.size());
  if (count == 0) return {};
  const auto better = [](const TokenChance& a, const TokenChance& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
  };
  // The best so far, as a heap with the worst of them in front.
  std::vector<TokenChance> top;
  for (size_t i = 0; i < logits.size(); ++i) {
    const TokenChance one = {static_cast<Token>(i), logits[i]};
    if (top.size() == count) {
      if (!better(one, top.front())) continue;
      std::pop_heap(top.begin(), top.end(), better);
      top.pop_back();
    }
    top.push_back(one);
    std::push_heap(top.begin(), top.end(), better);
  }
  std::sort_heap(top.begin(), top.end(), better);
  const double mass = log_mass(logits);
  for (TokenChance& one : top) one.logprob = static_cast<float>(one.logprob - mass);
  return top;
}

}  // namespace kvick::engine
