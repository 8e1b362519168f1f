#pragma once
// How fast a model reads a prompt and writes an answer, on one store.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"

namespace kvick::engine {

struct SpeedOptions {
  KvOptions kv;
  uint32_t prompt = 512;  // tokens of the prefill that is timed; 0: none
  uint32_t decode = 128;  // tokens per sequence of the decode that is timed; 0: none
  uint32_t depth = 0;     // tokens in each sequence before either starts
  uint32_t parallel = 1;  // sequences that decode together
  uint32_t repeats = 5;   // timed rounds, after one that is not
  base::Clock clock = base::steady_seconds;
  std::function<void(uint64_t done, uint64_t total)> progress;  // tokens
};

struct Speed {
  std::vector<double> prefill_tok_s,
      decode_tok_s;  // one per round; decode counts the tokens of all sequences
  kv::Usage usage;   // at the end of the last round, sequences still open
};

// Tokens are pseudo-random, the same every time; logits are computed for every decoded token and
// for the last of the prompt, as generation needs them. Errors: what make_store refuses, a depth
// that does not fit the context, no room.
base::Result<Speed> measure_speed(Engine& engine, const SpeedOptions& options);

// Median, and (highest - lowest) / median; 0 for an empty list.
double median(std::vector<double> values);
double spread(const std::vector<double>& values);

}  // namespace kvick::engine
