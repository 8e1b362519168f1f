#include "engine/sampling/penalties.h"

namespace kvick::engine {

Penalties::Penalties(Strengths strengths, uint32_t window)
    : strengths_(strengths), window_(strengths.any() ? window : 0) {}

void Penalties::add(Token token, bool of_prompt) {
  if (window_ == 0 || (of_prompt && strengths_.repetition == 1)) return;
  const auto [at, fresh] = where_.try_emplace(token, static_cast<uint32_t>(counts_.size()));
  if (fresh) counts_.push_back({.token = token});
  Count& count = counts_[at->second];
  ++(of_prompt ? count.prompt : count.answer);
  if (window_ == UINT32_MAX) return;
  if (last_.size() < window_) {
    last_.push_back({token, of_prompt});
    return;
  }
  forget(last_[oldest_]);
  last_[oldest_] = {token, of_prompt};
  oldest_ = (oldest_ + 1) % last_.size();
}

void Penalties::forget(Seen seen) {
  const auto at = where_.find(seen.token);
  Count& count = counts_[at->second];
  --(seen.of_prompt ? count.prompt : count.answer);
  if (count.prompt + count.answer > 0) return;
  where_[counts_.back().token] = at->second;
  count = counts_.back();
  counts_.pop_back();
  where_.erase(seen.token);
}

void Penalties::apply(std::span<float> logits) const {
  for (const Count& count : counts_) {
    float& logit = logits[static_cast<size_t>(count.token)];
    logit = logit > 0 ? logit / strengths_.repetition : logit * strengths_.repetition;
    if (count.answer > 0)
      logit -= strengths_.presence + strengths_.frequency * static_cast<float>(count.answer);
  }
}

}  // namespace kvick::engine
