#pragma once
// Measures how fast a model reads prompts and writes answers: a list of cases on one engine.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/core/engine.h"

namespace kvick::engine {

enum class Phase { kPrefill, kDecode };
std::string_view phase_name(Phase phase);  // "prefill", "decode"

// What one measurement times: `parallel` sequences with `depth` tokens each take `tokens` more
// each. Prompts are read in chunks of Session::kPrefillChunk; answers grow by one token a step, in
// all sequences together.
struct Case {
  Phase phase = Phase::kDecode;
  uint32_t tokens = 128;
  uint32_t depth = 0;
  uint32_t parallel = 1;  // 1 for prefill

  uint64_t all_tokens() const { return uint64_t{tokens} * parallel; }
  bool operator==(const Case&) const = default;
};

// The values of each case's fields. prompts = {0} or decodes = {0}: no cases of that phase.
struct Sweep {
  std::vector<uint32_t> prompts = {512}, decodes = {128}, depths = {0}, parallels = {1};
};
// Returns every prompt at every depth, then every decode of every number of sequences at every
// depth.
std::vector<Case> cases_of(const Sweep& sweep);

struct SpeedOptions {
  KvOptions kv;
  uint32_t repeats = 5;  // timed rounds of each case, after one that is not timed
  base::Clock clock = base::steady_seconds;
  // Tokens of all cases: of timed rounds, of those that are not timed, and those that fill the
  // depths.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct Measurement {
  Case what;
  std::vector<double> tok_s;  // one per round, over all sequences
  // At the end of the last round, with its sequences still open. copied_bytes: of all rounds,
  // except for the copies by which rounds fork sequences.
  kv::Usage usage;
};

// Returns one Measurement per case, in their order, each with a store of its own. A depth is filled
// once per case: rounds use forks of the filled sequences, the last round the sequences themselves.
// If there is no room for forks, every round fills its own. Tokens are pseudo-random, the same
// every time. Logits are computed for every decoded token and for the last of the prompt, as
// generation needs them. Errors: what make_store refuses, no case, a case that is empty or does not
// fit the context (before anything is measured), no room.
base::Result<std::vector<Measurement>> measure_speed(Engine& engine, std::span<const Case> cases,
                                                     const SpeedOptions& options);

// The median, and (highest - lowest) / median; 0 for an empty list.
double median(std::vector<double> values);
double spread(const std::vector<double>& values);

}  // namespace kvick::engine
