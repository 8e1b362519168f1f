#pragma once
// How many prompt tokens a step may take beside the answers that wait for it, from what earlier
// steps took. A step is short while few prompt tokens wait; the more wait, the longer it may be, so
// that a burst of requests gets its first tokens soon while running answers still go on at a
// readable speed.

#include <cstdint>

namespace kvick::engine {

class Pace {
 public:
  // step_seconds: what a step may take while an answer grows and few prompt tokens wait. most:
  // tokens of a step in any case.
  Pace(double step_seconds, uint32_t most) : step_seconds_(step_seconds), most_(most) {}

  // Prompt tokens for the next step, beside `answers` tokens of answers, while `waiting` prompt
  // tokens wait, those included; at least kFewest, so that prompts get on whatever answers take.
  uint32_t prompt_tokens(uint32_t answers, uint64_t waiting) const;
  // What a step took.
  void observe(uint32_t answers, uint32_t prompt_tokens, double seconds);
  // Seconds that one further prompt token adds to a step; 0 before the first step.
  double seconds_per_prompt_token() const { return per_token_; }

  static constexpr uint32_t kFewest = 16;
  // What a step takes at most, however many prompt tokens wait, but for kFewest: four tokens of an
  // answer a second can still be read along.
  static constexpr double kLongestStep = 0.25;

 private:
  double limit_seconds(uint64_t waiting) const;

  double step_seconds_;
  uint32_t most_;
  // A line through the latest steps, whichever tokens they had: means, and the moments about them.
  double weight_ = 0, tokens_ = 0, seconds_ = 0, variance_ = 0, covariance_ = 0;
  double per_token_ = 0;
  double of_answers_ = 0;  // of recent steps without prompts; 0 before the first
};

}  // namespace kvick::engine
