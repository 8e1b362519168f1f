#pragma once
// How fast a model reads a prompt and writes an answer: a list of measurements on one engine.

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

// What one measurement times: `parallel` sequences that hold `depth` tokens each take `tokens` more
// each, a prompt's in chunks of Session::kPrefillChunk, an answer's one by one, all sequences
// together.
struct Case {
  Phase phase = Phase::kDecode;
  uint32_t tokens = 128;
  uint32_t depth = 0;
  uint32_t parallel = 1;  // 1 for prefill

  uint64_t all_tokens() const { return uint64_t{tokens} * parallel; }
  bool operator==(const Case&) const = default;
};

// Lists of numbers of tokens and of sequences; prompts = {0} or decodes = {0}: none of that phase.
struct Sweep {
  std::vector<uint32_t> prompts = {512}, decodes = {128}, depths = {0}, parallels = {1};
};
// Every prompt at every depth, then every decode of every number of sequences at every depth.
std::vector<Case> cases_of(const Sweep& sweep);

struct SpeedOptions {
  KvOptions kv;
  uint32_t repeats = 5;  // timed rounds of each case, after one that is not
  base::Clock clock = base::steady_seconds;
  // Tokens of all cases: those timed, of the rounds that are not, and those that fill the depths.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct Measurement {
  Case what;
  std::vector<double> tok_s;  // one per round, over all sequences
  // At the end of the last round, its sequences still open. copied_bytes: over all rounds, but for
  // the copies that measuring makes.
  kv::Usage usage;
};

// One Measurement per case, in their order, each with a store of its own. A depth is filled once
// per case: the rounds work on forks of the filled sequences, the last one on themselves. Where
// there is no room for forks every round fills its own. Tokens are pseudo-random, the same every
// time; logits are computed for every decoded token and for the last of the prompt, as generation
// needs them. Errors: what make_store refuses, no case, a case that is empty or does not fit the
// context (before anything is measured), no room.
base::Result<std::vector<Measurement>> measure_speed(Engine& engine, std::span<const Case> cases,
                                                     const SpeedOptions& options);

// Median, and (highest - lowest) / median; 0 for an empty list.
double median(std::vector<double> values);
double spread(const std::vector<double>& values);

}  // namespace kvick::engine
