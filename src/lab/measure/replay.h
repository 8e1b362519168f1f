#pragma once
// Runs jobs through the engine's scheduler as a server does, but without a network. All jobs are
// queued at the start, so this measures throughput and memory, not waiting time.

#include <span>

#include "engine/serving/scheduler.h"
#include "lab/core/experiment.h"

namespace kvick::lab {

// A prompt of random tokens and an answer of a fixed length, whatever the model writes.
struct ReplayJob {
  uint32_t prompt = 0, answer = 0;  // tokens
  uint32_t choices = 1, beams = 0;  // as in engine::Job
};

struct Replayed {
  double seconds = 0;
  uint64_t answer_tokens = 0;
  double sequences = 0;     // open at once, mean over the steps
  double waste = 0;         // share of the memory of running jobs that holds no rows
  uint64_t peak_bytes = 0;  // of running jobs: allocated bytes that are not cached rows
  engine::Metrics metrics;  // at the end
};

// Error: invalid options, or a job that could not finish.
base::Result<Replayed> replay(engine::Engine& engine, const engine::SchedulerOptions& options,
                              std::span<const ReplayJob> jobs);

}  // namespace kvick::lab
