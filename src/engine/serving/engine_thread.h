#pragma once
// A Scheduler with a thread of its own: the service that servers run.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/serving/scheduler.h"
#include "engine/sharing/queue_pace.h"

namespace kvick::engine {

struct EngineThreadOptions {
  SchedulerOptions batch;
  uint32_t most_waiting = 1024;  // jobs that have not started
  // Longest expected wait of a job; jobs with a longer forecast are refused. 0: no limit.
  double most_wait_seconds = 0;
  // Seconds between the snapshots from which cache() and metrics() answer while jobs run; one is
  // also taken whenever a job ends.
  double snapshot_seconds = 0.2;
  // Ids of jobs: the first, and from one to the next.
  uint64_t first_job = 1, job_stride = 1;
};

class EngineThread final : public Service {
 public:
  // The engine is the scheduler's until it is destroyed, but for its tokenizer and its templates.
  // Errors: what Engine::make_store refuses.
  static base::Result<std::unique_ptr<EngineThread>> make(Engine& engine,
                                                          const EngineThreadOptions& options);
  // Jobs that run are cancelled; each hears of its end.
  ~EngineThread() override;

  base::Result<JobId, Refusal> submit(Job job) override;
  std::optional<Refusal> refuses_now() override;
  void cancel(JobId job) override;
  void flush() override;
  Metrics metrics() const override;
  CacheState cache() const override;
  uint32_t context() const override { return context_; }
  // Takes no more jobs; those it has go on.
  void drain();
  // Waits until no job is left.
  void wait();

 private:
  EngineThread(Engine& engine, const EngineThreadOptions& options,
               std::unique_ptr<Scheduler> scheduler);
  std::optional<Refusal> busy() const;
  void work() noexcept;
  void publish() noexcept;
  uint32_t count_waiting() noexcept;
  void add_all(RunningJobs& jobs) noexcept;

  const base::ThreadPool& pool_;  // its worker 0 is this thread
  EngineThreadOptions options_;
  // While busy_, used by the thread only (except refuses() and file_counts()); otherwise by whoever
  // holds the mutex.
  std::unique_ptr<Scheduler> scheduler_;
  uint32_t context_;

  mutable std::mutex mutex_;
  std::condition_variable work_, idle_;
  RunningJobs submitted_;
  std::vector<JobId> cancelled_;
  uint64_t next_;
  uint64_t refused_ = 0;
  uint32_t waiting_ = 0;  // jobs that the scheduler has, and has not begun
  QueuePace queue_pace_;
  bool draining_ = false, stopping_ = false, busy_ = false;
  bool asked_ = false;  // for memory, by another instance
  bool flush_ = false;  // before the next job is added
  // As they were when a step last published them: who asks never waits for one.
  Metrics metrics_;
  std::shared_ptr<const CacheState> cache_ = std::make_shared<const CacheState>();
  bool stale_ = false;  // there was no memory for the last ones

  std::thread thread_;
};

}  // namespace kvick::engine
