#pragma once
// Collects a model's answers to prompts, many at once, and its distribution at every token of
// prompt and answer.

#include <functional>
#include <span>

#include "base/result.h"
#include "engine/core/engine.h"
#include "engine/sampling/sampler.h"
#include "train/files/answers_file.h"

namespace kvick::train {

struct AskOptions {
  engine::Sampling sampling{.temperature = 0};  // prompt i samples with seed + i
  uint32_t tokens = 128;                        // limit of an answer
  uint32_t parallel = 16;                       // prompts answered at once
  uint32_t top = 16;                            // likeliest tokens kept per position
  std::function<void(uint64_t prompts_done)> progress;
};

// Returns the sequences in the order of their prompts, with the token that ends an answer; leaves
// out empty answers. Errors: no prompts, a prompt that leaves no room for an answer, an invalid
// sampling value.
base::Result<AnswerData> ask(engine::Engine& engine,
                             std::span<const std::vector<engine::Token>> prompts,
                             const AskOptions& options);

}  // namespace kvick::train
