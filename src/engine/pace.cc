#include "engine/pace.h"

#include <algorithm>
#include <cmath>

namespace kvick::engine {
namespace {

// Of the newest measurement: a few steps forget what another load has left behind.
constexpr double kWeight = 0.25;

void average(double& mean, double value) {
  mean = mean == 0 ? value : mean + kWeight * (value - mean);
}

}  // namespace

uint32_t Pace::prompt_tokens(uint32_t answers) const {
  if (answers == 0) return most_;
  const uint32_t most = most_ > answers ? std::max(most_ - answers, kFewest) : kFewest;
  if (per_prompt_token_ <= 0) return std::min(most, 4 * kFewest);
  const double left = std::max(0.0, step_seconds_ - answers_alone_) / per_prompt_token_;
  return static_cast<uint32_t>(std::clamp<double>(std::floor(left), kFewest, most));
}

void Pace::observe(uint32_t answers, uint32_t prompt_tokens, double seconds) {
  if (prompt_tokens == 0) return average(answers_alone_, seconds);
  // Few tokens say little: reading the weights, which a step does once, would count as theirs.
  if (prompt_tokens < kFewest) return;
  const double alone = answers == 0 ? 0 : answers_alone_;
  average(per_prompt_token_, std::max(seconds - alone, 0.1 * seconds) / prompt_tokens);
}

}  // namespace kvick::engine
