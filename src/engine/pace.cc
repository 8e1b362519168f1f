#include "engine/pace.h"

#include <algorithm>
#include <cmath>

namespace kvick::engine {
namespace {

// Of the steps before, at each new one: some thirty tell.
constexpr double kMemory = 0.97;
// Steps of one size say nothing of a token more: what was known counts as much as sizes that differ
// so far, in tokens squared.
constexpr double kTrust = 64;
// Of the kernels' tiles: what is left over of one takes most of its time.
constexpr uint32_t kTile = 16;

}  // namespace

uint32_t Pace::prompt_tokens(uint32_t answers) const {
  if (answers == 0) return most_;
  const uint32_t most = most_ > answers ? std::max(most_ - answers, kFewest) : kFewest;
  if (per_token_ <= 0) return std::min(most, 4 * kFewest);
  const double total = tokens_ + (step_seconds_ - seconds_) / per_token_;
  const auto n = static_cast<uint32_t>(std::clamp<double>(total - answers, kFewest, most));
  const uint32_t rest = (answers + n) % kTile;
  if (n >= kFewest + rest) return n - rest;
  return std::min(most, n + kTile - rest);
}

void Pace::observe(uint32_t answers, uint32_t prompt_tokens, double seconds) {
  const double tokens = answers + prompt_tokens;
  // A step that was held up once says little of the next one.
  if (weight_ > 1) {
    const double expected = seconds_ + per_token_ * (tokens - tokens_);
    seconds = std::min(seconds, 3 * std::max(expected, seconds_));
  }
  weight_ = weight_ * kMemory + 1;
  const double share = 1 / weight_, d_tokens = tokens - tokens_, d_seconds = seconds - seconds_;
  tokens_ += share * d_tokens;
  seconds_ += share * d_seconds;
  variance_ += share * (d_tokens * (tokens - tokens_) - variance_);
  covariance_ += share * (d_tokens * (seconds - seconds_) - covariance_);
  const double slope = (covariance_ + kTrust * per_token_) / (variance_ + kTrust);
  const double mean = seconds_ / tokens_;
  per_token_ = std::clamp(slope, 0.1 * mean, mean);
}

}  // namespace kvick::engine
