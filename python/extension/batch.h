#pragma once
// Many prompts at once, for the Python module: a scheduler that lives as long as a call.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/engine_thread.h"

namespace kvick::python {

// Called between steps, and now and then while another thread's call computes; without Python's
// lock. What it throws ends the call.
using Between = std::function<void()>;

// A job that has ended.
struct JobEnd {
  std::string text;
  std::vector<engine::Token> tokens;  // generated, without the end token
  std::optional<engine::Finish> finish;
  engine::JobOutcome outcome;
  double ended = 0;  // by the clock of outcome.times
};

// Told of each job that has ended, as they end, on the thread that called; false: the others are
// cancelled.
using OnEnd = std::function<bool(size_t job, const JobEnd& end)>;

// Runs the jobs to their ends, as many at once as the options allow, and returns these in the order
// of the jobs. The jobs' on_piece and on_end are replaced. Throws Error, which begins with `what`
// and the job's number, if one is refused or cannot go on; the others are cancelled then.
std::vector<JobEnd> run_jobs(engine::Engine& engine, engine::EngineThreadOptions options,
                             std::vector<engine::Job> jobs, const char* what, const OnEnd& on_end,
                             const Between& between);

}  // namespace kvick::python
