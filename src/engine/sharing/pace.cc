#include "engine/sharing/pace.h"

#include <algorithm>
#include <cmath>

namespace kvick::engine {
namespace {

// Decay of the weight of past steps with each new one: an average over about thirty steps.
constexpr double kMemory = 0.97;
// Steps of equal size say nothing about the slope: the previous slope is kept with the weight of
// this variance of sizes, in tokens squared.
constexpr double kTrust = 64;
// Rows of the kernels' tiles: a partly filled tile takes most of the time of a full one.
constexpr uint32_t kTile = 16;

}  // namespace

// While prompts wait, they get at least half of the time, and a step may take a quarter of the time
// that all of them need. With steps of 30 ms in any case, 16 requests that arrived together waited
// 5 s for prompts that take 3 s, because answers took most of each step.
double Pace::limit_seconds(uint64_t waiting) const {
  const double of_prompts = per_token_ * static_cast<double>(waiting);
  const double longest = std::max(step_seconds_, kLongestStep);
  return std::clamp(std::max(of_prompts / 4, 2 * of_answers_), step_seconds_, longest);
}

uint32_t Pace::prompt_tokens(uint32_t answers, uint64_t waiting) const {
  if (answers == 0) return most_;
  const uint32_t most = most_ > answers ? std::max(most_ - answers, kFewest) : kFewest;
  if (per_token_ <= 0) return std::min(most, 4 * kFewest);
  const double total = tokens_ + (limit_seconds(waiting) - seconds_) / per_token_;
  const auto n = static_cast<uint32_t>(std::clamp<double>(total - answers, kFewest, most));
  const uint32_t rest = (answers + n) % kTile;
  if (n >= kFewest + rest) return n - rest;
  return std::min(most, n + kTile - rest);
}

void Pace::observe(uint32_t answers, uint32_t prompt_tokens, double seconds) {
  const double tokens = answers + prompt_tokens;
  // Limits outliers: a step that was held up once says little about the next one.
  if (weight_ > 1) {
    const double expected = seconds_ + per_token_ * (tokens - tokens_);
    seconds = std::min(seconds, 3 * std::max(expected, seconds_));
  }
  if (prompt_tokens == 0)
    of_answers_ = of_answers_ > 0 ? of_answers_ + (seconds - of_answers_) / 8 : seconds;
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
