#pragma once
// Runs a Scheduler on a thread of its own: the service that servers use.

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
  uint32_t most_waiting = 1024;  // limit on jobs that were never admitted
  // Limit on the expected wait of a job, in seconds; jobs with a longer forecast are refused. 0: no
  // limit.
  double most_wait_seconds = 0;
  // Seconds between the snapshots that cache() and metrics() return while jobs run. One is also
  // taken whenever a job ends; that of the cache only if it takes a small share of the time.
  double snapshot_seconds = 0.2;
  // The id of the first job, and the difference between one id and the next.
  uint64_t first_job = 1, job_stride = 1;
};

class EngineThread final : public Service {
 public:
  // Only the scheduler may use the engine until this object is destroyed, except for its tokenizer
  // and its templates. Errors: those of Scheduler::make.
  static base::Result<std::unique_ptr<EngineThread>> make(Engine& engine,
                                                          const EngineThreadOptions& options);
  // Cancels all jobs; on_end of each is called.
  ~EngineThread() override;

  base::Result<JobId, Refusal> submit(Job job) override;
  std::optional<Refusal> refuses_now() override;
  void cancel(JobId job) override;
  void flush() override;
  Metrics metrics() const override;
  CacheState cache() const override;
  uint32_t context() const override { return context_; }
  // Refuses new jobs from now on. Jobs that were submitted before continue.
  void drain();
  // Waits until no job is left.
  void wait();

 private:
  EngineThread(Engine& engine, const EngineThreadOptions& options,
               std::unique_ptr<Scheduler> scheduler);
  std::optional<Refusal> busy() const;
  void work() noexcept;
  void publish() noexcept;
  void publish_map() noexcept;
  uint32_t count_waiting() noexcept;
  void add_all(RunningJobs& jobs) noexcept;

  const base::ThreadPool& pool_;  // thread_ is its worker 0
  EngineThreadOptions options_;
  // While busy_, only thread_ may use it, except for refuses(), file_counts() and store_counts();
  // otherwise only the holder of mutex_ may.
  std::unique_ptr<Scheduler> scheduler_;
  uint32_t context_;

  mutable std::mutex mutex_;
  std::condition_variable work_, idle_;
  RunningJobs submitted_;
  std::vector<JobId> cancelled_;
  uint64_t next_;
  uint64_t refused_ = 0;
  uint32_t waiting_ = 0;  // jobs of the scheduler that were never admitted
  QueuePace queue_pace_;
  bool draining_ = false, stopping_ = false, busy_ = false;
  bool asked_ = false;  // another instance has asked for memory
  bool flush_ = false;  // to be done before the next job is added
  // The latest snapshots: a caller of metrics() or cache() never waits for a step.
  Metrics metrics_;
  std::shared_ptr<const CacheState> cache_ = std::make_shared<const CacheState>();
  bool stale_ = false;       // the last snapshot failed, most likely for lack of memory
  bool map_is_old_ = false;  // metrics_ is newer than cache_
  double next_map_ = 0;      // when the next map of the cache may be taken; only thread_ uses it

  std::thread thread_;
};

}  // namespace kvick::engine
