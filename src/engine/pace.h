#pragma once
// How many tokens of prompts a step may take beside the answers that wait for it: as many as keep
// the step short, by what earlier steps took.

#include <cstdint>

namespace kvick::engine {

class Pace {
 public:
  // step_seconds: what a step may take while an answer grows. most: tokens of a step in any case.
  Pace(double step_seconds, uint32_t most) : step_seconds_(step_seconds), most_(most) {}

  // Prompt tokens for the next step, beside `answers` tokens of answers; at least kFewest, so that
  // prompts get on whatever answers take.
  uint32_t prompt_tokens(uint32_t answers) const;
  // What a step took.
  void observe(uint32_t answers, uint32_t prompt_tokens, double seconds);
  // Of one token more in a step that has others; 0 before the first step.
  double seconds_per_prompt_token() const { return per_token_; }

  static constexpr uint32_t kFewest = 16;

 private:
  double step_seconds_;
  uint32_t most_;
  // A line through the latest steps, whichever tokens they had: means, and the moments about them.
  double weight_ = 0, tokens_ = 0, seconds_ = 0, variance_ = 0, covariance_ = 0;
  double per_token_ = 0;
};

}  // namespace kvick::engine
