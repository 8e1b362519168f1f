#pragma once
// Asks a model: its answers to prompts, many at once, and its distribution at every token of both.

#include <functional>
#include <span>

#include "base/result.h"
#include "engine/core/engine.h"
#include "engine/sampling/sampler.h"
#include "train/files/answers_file.h"

namespace kvick::train {

struct AskOptions {
  engine::Sampling sampling{.temperature = 0};  // prompt i draws with seed + i
  uint32_t tokens = 128;                        // of an answer, at most
  uint32_t parallel = 16;                       // prompts that are answered at once
  uint32_t top = 16;                            // most likely tokens that are kept per position
  std::function<void(uint64_t prompts_done)> progress;
};

// The sequences are in the order of their prompts and include the token that ends an answer; empty
// answers are left out. Errors: no prompts, a prompt that leaves no room for an answer, a bad
// sampling value.
base::Result<AnswerData> ask(engine::Engine& engine,
                             std::span<const std::vector<engine::Token>> prompts,
                             const AskOptions& options);

}  // namespace kvick::train
