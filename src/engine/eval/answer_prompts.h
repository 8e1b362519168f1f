#pragma once
// Greedy answers to a list of prompts, with draft tokens or without, and how fast they were
// written.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/core/adapters.h"
#include "engine/core/engine.h"
#include "engine/options/spec_options.h"

namespace kvick::engine {

struct AnswerOptions {
  KvOptions kv;
  SpecOptions spec;
  uint32_t tokens = 64;              // of an answer, at most
  uint32_t parallel = 1;             // prompts that are answered at once
  bool ignore_end = false;           // go on past the model's end tokens
  std::vector<AdapterUse> adapters;  // those of the prompts, in turn; empty: none has one
  base::Clock clock = base::steady_seconds;
  std::function<void(uint64_t prompts_done)> progress;
};

// What is timed is writing: forwards that read prompts are not, nor the tokens that came of them.
struct Answered {
  std::vector<std::vector<Token>> answers;  // [prompts]; without the end token
  double seconds = 0;
  uint64_t tokens = 0;                 // written in these seconds
  uint64_t drafted = 0, accepted = 0;  // of all answers
  uint64_t written = 0;                // tokens of all answers behind the first ones
  // How many tokens a forward gave an answer.
  double tokens_per_pass() const;
};

// One prompt after the other in one sequence, or `parallel` of them by a Scheduler, the next ones
// when all of those have ended; what was learnt of draft tokens goes on from prompt to prompt.
// Answers do not depend on spec or parallel where the strategy is exact (ADR 3, ADR 17). Errors: no
// prompts, what make_store and Speculation::prepare refuse, a prompt that does not fit, no room.
base::Result<Answered> answer_prompts(Engine& engine, std::span<const std::vector<Token>> prompts,
                                      const AnswerOptions& options);

}  // namespace kvick::engine
