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
  // Of one prompt token in a step that has others; 0 before the first.
  double seconds_per_prompt_token() const { return per_prompt_token_; }

  static constexpr uint32_t kFewest = 16;

 private:
  double step_seconds_;
  uint32_t most_;
  double per_prompt_token_ = 0;  // moving averages
  double answers_alone_ = 0;     // a step without prompts
};

}  // namespace kvick::engine
