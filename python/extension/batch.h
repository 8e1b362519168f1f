#pragma once
// Runs many prompts at once for the Python module, with a scheduler that lives as long as the call.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/engine_thread.h"

namespace kvick::python {

// Called between steps, and regularly while waiting for another thread's call, without Python's
// lock. An exception from it ends the call.
using Between = std::function<void()>;

// A job that has ended.
struct JobEnd {
  std::string text;
  std::vector<engine::Token> tokens;  // generated, without the end token
  std::optional<engine::Finish> finish;
  engine::JobOutcome outcome;
  double ended = 0;  // seconds, on the clock of outcome.times
};

// Called for each job as it ends, on the calling thread. Returning false cancels the others.
using OnEnd = std::function<bool(size_t job, const JobEnd& end)>;

// Runs the jobs to their ends, as many at once as the options allow, and returns the ends in the
// order of the jobs. Replaces the jobs' on_piece and on_end. If a job is refused or fails, throws
// Error, which begins with `what` and the job's number, and cancels the others.
std::vector<JobEnd> run_jobs(engine::Engine& engine, engine::EngineThreadOptions options,
                             std::vector<engine::Job> jobs, const char* what, const OnEnd& on_end,
                             const Between& between);

}  // namespace kvick::python
