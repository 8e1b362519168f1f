#pragma once
// What a service reports: numbers for /metrics, and the state of its cache for /kv and the page.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv/contract/kv.h"
#include "model/matrices/expert_stats.h"

namespace kvick::engine {

// Counts of durations, in seconds, at or below each bound and above the last.
struct Histogram {
  static constexpr std::array kBounds = {0.001, 0.0025, 0.005, 0.01,   0.025,  0.05, 0.1,
                                         0.25,  0.5,    1.0,   2.5,    5.0,    10.0, 25.0,
                                         50.0,  100.0,  250.0, 1000.0, 10000.0};
  std::array<uint64_t, kBounds.size() + 1> counts = {};  // above the previous bound, up to this one
  double sum = 0;
  void add(double seconds);
  void add(const Histogram& other);
  uint64_t count() const;
};

// A tier of the prefix cache beyond memory: how many of its blocks were read, written, missing,
// damaged or too late.
struct TierCounts {
  uint64_t bytes = 0, files = 0;  // of a folder, now
  uint64_t limit_bytes = 0;       // limit on `bytes`
  uint64_t hits = 0, writes = 0, evictions = 0;
  uint64_t torn = 0, foreign = 0, missing = 0, late = 0;
  uint64_t failed_writes = 0, dropped_writes = 0;
  // Of a store on the network.
  bool in_use = false, connected = false;  // now
  uint64_t found = 0;                      // blocks that it reported to have
  uint64_t failures = 0;                   // connections refused or lost, time-outs, errors
  uint64_t full = 0;                       // writes that it refused for lack of memory
  uint64_t skipped = 0;  // look-ups, reads and writes skipped while it was not in use
  uint64_t read_bytes = 0, written_bytes = 0;
  double seconds_per_byte = 0;
};

// Prompts handed over from one process to another through the store. given: computed here for
// another process; taken: with all rows from there; computed: taken, but at least in part computed
// again.
struct HandoverCounts {
  uint64_t given = 0, taken = 0, computed = 0;
};

// Counts since the service began, except those that are described as of now.
struct Metrics {
  uint32_t waiting = 0, running = 0, preempted = 0;  // jobs now
  uint64_t job_tokens = 0;  // tokens of these jobs: prompts, and answers so far
  uint64_t finished = 0, cancelled = 0, failed = 0, refused = 0;
  uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  // Prompt tokens that were read again although an earlier prompt began with them and some layers
  // had their rows: there was no checkpoint.
  uint64_t read_again_tokens = 0;
  // The cached tokens that were moved from another position (ReuseOptions::shift)
  uint64_t moved_tokens = 0;
  uint64_t steps = 0, step_tokens = 0;
  uint64_t drafted = 0, accepted = 0;            // speculative tokens
  Histogram queue, first_token, between_tokens;  // seconds
  // Preemption: how often, bytes read back from tiers, tokens computed again, and seconds lost to
  // either.
  uint64_t swaps = 0, recomputations = 0, swapped_bytes = 0, recomputed_tokens = 0;
  double preemption_seconds = 0;
  // Memory of all stores, now.
  uint64_t kv_limit_bytes = 0;
  kv::Usage kv;
  // Of the default kind of cache: bytes of a token, and tokens of a block.
  uint64_t token_bytes = 0;
  uint32_t block_tokens = 1;
  Histogram reuse_age;       // of cached blocks that a prompt found: seconds since their last use
  uint64_t draft_bytes = 0;  // rows of a draft model, not counted in `kv`
  TierCounts files, store;
  HandoverCounts handovers;
  // Per policy that chooses rows: the number of checks, and the attention share that it missed,
  // summed over the checks.
  struct Checks {
    uint64_t count = 0;
    double lost_mass = 0;
  };
  std::map<std::string, Checks> checks;
  // Only if some of the model's experts are not in memory.
  std::optional<model::ExpertStats> experts;

  // Adds another instance's metrics; both share the memory limit, the files and the store.
  void add(const Metrics& other);
};

enum class JobState { kWaiting, kPrompt, kAnswer, kSwapped, kEvicted };
std::string_view job_state_name(JobState state);  // "waiting", "prompt", "answer", ...

struct SequenceState {
  uint64_t job = 0;
  uint32_t choice = 0;
  JobState state = JobState::kWaiting;
  size_t store = 0;  // index into CacheState::stores
  uint32_t tokens = 0, prompt_tokens = 0, cached_tokens = 0;
  uint64_t bytes = 0;          // of its rows; shared ones count in full
  uint32_t answer_tokens = 0;  // of all choices of the job
  double queue_seconds = 0;    // time until the job's first step, or until now
};
// A piece of cache memory: a block, or one sequence's rows.
struct CachePiece {
  uint64_t bytes = 0;
  uint32_t used_tokens = 0, tokens = 0;  // tokens with rows; tokens that it has room for
  uint32_t users = 0;                    // sequences that use it; 0: cached for later prompts
  uint64_t job = 0;                      // of one of these sequences
};
struct StoreState {
  size_t instance = 0;                       // index of the instance that has it
  std::string strategy, type, tier, select;  // as --kv and its like take them
  kv::Usage usage;
  std::vector<CachePiece> pieces;
};
struct CacheState {
  uint64_t limit_bytes = 0;
  std::vector<StoreState> stores;
  std::vector<SequenceState> sequences;
};

}  // namespace kvick::engine
