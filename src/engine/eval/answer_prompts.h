#pragma once
// Answers a list of prompts greedily, with draft tokens or without, and times the writing.

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
  uint32_t tokens = 64;              // limit on an answer's tokens
  uint32_t parallel = 1;             // prompts that are answered at once
  bool ignore_end = false;           // continue past the model's end tokens
  std::vector<AdapterUse> adapters;  // prompt i uses adapter i modulo their number; empty: none
  base::Clock clock = base::steady_seconds;
  std::function<void(uint64_t prompts_done)> progress;
};

// Only writing is timed: neither forwards that read prompts nor the tokens that these give.
struct Answered {
  std::vector<std::vector<Token>> answers;  // [prompts]; without the end token
  double seconds = 0;
  uint64_t tokens = 0;                 // tokens written in `seconds`
  uint64_t drafted = 0, accepted = 0;  // draft tokens of all answers
  uint64_t written = 0;                // tokens of all answers, except the first of each
  // Returns the tokens that a forward gave an answer, on average.
  double tokens_per_pass() const;
};

// Answers the prompts one after the other in one sequence, or `parallel` at a time by a Scheduler:
// the next ones begin when all of those have ended. What is learnt for draft tokens is kept from
// prompt to prompt. Answers do not depend on spec or parallel if the strategy is exact (ADR 3, ADR
// 17). Errors: no prompts, what make_store and Speculation::prepare refuse, a prompt that does not
// fit, no room.
base::Result<Answered> answer_prompts(Engine& engine, std::span<const std::vector<Token>> prompts,
                                      const AnswerOptions& options);

}  // namespace kvick::engine
