#include "extension/batch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fmt/format.h>
#include <mutex>

#include "extension/model.h"

#include "base/clock.h"

namespace kvick::python {
namespace {

// Time between two checks for Ctrl-C.
constexpr std::chrono::milliseconds kLook{50};

// The ends of jobs. An entry belongs to the service's thread until its number is in the queue, and
// then to the caller.
class Ends {
 public:
  explicit Ends(size_t jobs) : ends_(jobs) {}

  void listen(size_t number, engine::Job& job) {
    job.on_piece = [this, number](const engine::AnswerPiece& piece) {
      JobEnd& end = ends_[number];
      end.text += piece.text;
      if (piece.token) end.tokens.push_back(*piece.token);
      if (piece.finish) end.finish = piece.finish;
    };
    job.on_end = [this, number](const engine::JobOutcome& outcome) {
      ends_[number].outcome = outcome;
      ends_[number].ended = base::steady_seconds();
      const std::lock_guard lock(mutex_);
      ended_.push_back(number);
      one_ended_.notify_one();
    };
  }

  // Waits up to kLook for a job to end. Returns its number, or none.
  std::optional<size_t> next() {
    std::unique_lock lock(mutex_);
    one_ended_.wait_for(lock, kLook, [&] { return !ended_.empty(); });
    if (ended_.empty()) return std::nullopt;
    const size_t number = ended_.front();
    ended_.pop_front();
    return number;
  }

  const JobEnd& operator[](size_t number) const { return ends_[number]; }
  std::vector<JobEnd> take() { return std::move(ends_); }

 private:
  std::vector<JobEnd> ends_;
  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::deque<size_t> ended_;
};

[[noreturn]] void refuse(const char* what, size_t number, const engine::Refusal& why) {
  throw Error(fmt::format("{} {}: {}", what, number, why.message));
}

}  // namespace

std::vector<JobEnd> run_jobs(engine::Engine& engine, engine::EngineThreadOptions options,
                             std::vector<engine::Job> jobs, const char* what, const OnEnd& on_end,
                             const Between& between) {
  options.most_waiting = static_cast<uint32_t>(std::min<size_t>(jobs.size(), UINT32_MAX));
  Ends ends(jobs.size());
  // Declared last: if an exception is thrown, the service is destroyed first, which cancels its
  // jobs and waits for their ends.
  auto service = value_or_throw(engine::EngineThread::make(engine, options));
  for (size_t i = 0; i < jobs.size(); ++i) {
    ends.listen(i, jobs[i]);
    const auto submitted = service->submit(std::move(jobs[i]));
    if (!submitted.ok()) refuse(what, i, submitted.error());
  }
  for (size_t left = jobs.size(); left > 0;) {
    between();
    const std::optional<size_t> number = ends.next();
    if (!number) continue;
    --left;
    const JobEnd& end = ends[*number];
    if (end.outcome.error) refuse(what, *number, *end.outcome.error);
    if (!on_end(*number, end)) break;
  }
  service.reset();
  return ends.take();
}

}  // namespace kvick::python
