#pragma once
// Decides how many prompt tokens a step computes beside the tokens of running answers, by the times
// of earlier steps. Steps are short while few prompt tokens wait. The more wait, the longer a step
// may be: so a burst of requests gets its first tokens soon, while running answers continue at a
// readable speed.

#include <cstdint>

namespace kvick::engine {

class Pace {
 public:
  // step_seconds: the longest step while an answer grows and few prompt tokens wait. most: the most
  // tokens of a step.
  Pace(double step_seconds, uint32_t most) : step_seconds_(step_seconds), most_(most) {}

  // Returns the prompt tokens of the next step, which has `answers` tokens of answers as well, if
  // `waiting` prompt tokens wait in all. It is at least kFewest, so that prompts advance however
  // long answers take.
  uint32_t prompt_tokens(uint32_t answers, uint64_t waiting) const;
  // Records the time of a step.
  void observe(uint32_t answers, uint32_t prompt_tokens, double seconds);
  // Returns the seconds that one further prompt token adds to a step; 0 before the first step.
  double seconds_per_prompt_token() const { return per_token_; }

  static constexpr uint32_t kFewest = 16;
  // The longest step in seconds, unless kFewest tokens take longer, however many prompt tokens
  // wait: an answer of four tokens per second can still be read along.
  static constexpr double kLongestStep = 0.25;

 private:
  double limit_seconds(uint64_t waiting) const;

  double step_seconds_;
  uint32_t most_;
  // Linear regression of seconds on tokens over recent steps: weight, means, and central moments.
  double weight_ = 0, tokens_ = 0, seconds_ = 0, variance_ = 0, covariance_ = 0;
  double per_token_ = 0;
  double of_answers_ = 0;  // mean seconds of recent steps without prompt tokens; 0 before the first
};

}  // namespace kvick::engine
