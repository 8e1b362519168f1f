#pragma once
// How a scheduler goes about its jobs.

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
  KvOptions kv;                      // of jobs that ask for nothing else
  uint64_t kv_bytes = UINT64_MAX;    // of all stores together
  uint32_t max_sequences = 64;       // that are computed at once
  double step_seconds = 0.03;        // of a step while answers grow and few prompts wait: see Pace
  uint32_t most_step_tokens = 512;   // see Session::kPrefillChunk
  double seconds_per_priority = 10;  // waiting this long raises a job's rank by one priority
  // Tokens by which every answer must be able to grow when a job is admitted: with less, it would
  // soon be preempted for the answers that run beside it.
  uint32_t headroom_tokens = 64;
  // Where rows are kept beyond memory, a folder and a store that others share; null: there is none.
  std::shared_ptr<PrefixTier> files, store;
  double file_seconds = 2;  // what a job waits for them at most
  ReuseOptions reuse;
  SpecOptions spec;  // of jobs that ask for nothing else
  // Its draft model, if it has been loaded already.
  std::shared_ptr<const DraftWeights> draft;
  // Shared with other schedulers, and which of them this one is; null: kv_bytes are its own.
  std::shared_ptr<MemoryShare> memory;
  size_t member = 0;
  base::Clock clock = base::steady_seconds;
  base::CrashNotes* crash_notes = nullptr;  // told which requests a step has; null: nobody is
  // Told, in one sentence, what of the engine itself broke; on the scheduler's thread.
  std::function<void(const std::string&)> report;
};

}  // namespace kvick::engine
