#pragma once
// Options of a scheduler.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/crash/crash_notes.h"
#include "engine/options/kv_options.h"
#include "engine/options/spec_options.h"
#include "engine/prefix/prefix_tier.h"
#include "engine/reuse/reuse_options.h"
#include "engine/sharing/memory_share.h"

namespace kvick::engine {

struct DraftWeights;

struct SchedulerOptions {
  KvOptions kv;                    // of jobs without options of their own
  uint64_t kv_bytes = UINT64_MAX;  // limit of all stores together
  uint32_t max_sequences = 64;     // limit on sequences of running jobs
  // Target for a step while answers grow and few prompts wait: see Pace.
  double step_seconds = 0.03;
  uint32_t most_step_tokens = 512;   // see Session::kPrefillChunk
  double seconds_per_priority = 10;  // waiting this long raises a job's rank by one priority
  // Tokens by which every answer must be able to grow when a job is admitted. With less, the job
  // would soon be preempted for the answers that already run.
  uint32_t headroom_tokens = 64;
  // Tiers of the prefix cache beyond memory: a folder, and a store that several servers share.
  // Null: there is none.
  std::shared_ptr<PrefixTier> files, store;
  double file_seconds = 2;  // the longest that a job waits for rows of them
  ReuseOptions reuse;
  SpecOptions spec;  // of jobs without options of their own
  // The draft model of `spec`, if it has been loaded already.
  std::shared_ptr<const DraftWeights> draft;
  // The memory budget shared with other schedulers, and this scheduler's index in it. Null:
  // kv_bytes are for this scheduler alone.
  std::shared_ptr<MemoryShare> memory;
  size_t member = 0;
  base::Clock clock = base::steady_seconds;
  base::CrashNotes* crash_notes = nullptr;  // receives the requests of each step; may be null
  // Called with one sentence when something of the engine itself failed; on the scheduler's thread.
  std::function<void(const std::string&)> report;
};

}  // namespace kvick::engine
