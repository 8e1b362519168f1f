#include "engine/serving/engine_thread.h"

#include <fmt/format.h>

#include "base/thread.h"

namespace kvick::engine {
namespace {

// After a map of the cache, the next one waits for this many times as long as the map took. Its
// time grows with the cache, and jobs may begin and end at any rate.
constexpr double kMapPause = 50;

}  // namespace

base::Result<std::unique_ptr<EngineThread>> EngineThread::make(Engine& engine,
                                                               const EngineThreadOptions& options) {
  KVICK_TRY(std::unique_ptr<Scheduler> scheduler, Scheduler::make(engine, options.batch));
  return std::unique_ptr<EngineThread>(new EngineThread(engine, options, std::move(scheduler)));
}

EngineThread::EngineThread(Engine& engine, const EngineThreadOptions& options,
                           std::unique_ptr<Scheduler> scheduler)
    : pool_(engine.pool()),
      options_(options),
      scheduler_(std::move(scheduler)),
      context_(engine.most_tokens(options.batch.kv)),
      next_(options.first_job),
      queue_pace_(options.batch.max_sequences) {
  publish();
  thread_ = base::start_thread("the engine", [this] { work(); });
  if (options_.batch.memory != nullptr)
    options_.batch.memory->on_ask(options_.batch.member, [this] {
      const std::lock_guard lock(mutex_);
      asked_ = true;
      work_.notify_one();
    });
}

EngineThread::~EngineThread() {
  if (options_.batch.memory != nullptr)
    options_.batch.memory->on_ask(options_.batch.member, nullptr);
  {
    const std::lock_guard lock(mutex_);
    draining_ = stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

// The caller holds the mutex.
std::optional<Refusal> EngineThread::busy() const {
  using Why = Refusal::Why;
  if (draining_) return Refusal{Why::kBusy, "the server is shutting down", ""};
  const auto ahead = static_cast<uint32_t>(waiting_ + submitted_.size());
  if (ahead >= options_.most_waiting)
    return Refusal{
        Why::kBusy,
        fmt::format("{} requests are waiting already; try again later", options_.most_waiting), "",
        queue_pace_.wait_seconds(1)};
  const double most = options_.most_wait_seconds, wait = queue_pace_.wait_seconds(ahead);
  if (most == 0 || wait <= most) return std::nullopt;
  return Refusal{Why::kBusy,
                 fmt::format("{} requests are waiting, behind which this one would wait for {:.0f} "
                             "seconds; try again later",
                             ahead, wait),
                 "", wait - most};
}

std::optional<Refusal> EngineThread::refuses_now() {
  const std::lock_guard lock(mutex_);
  std::optional<Refusal> refusal = busy();
  if (refusal) ++refused_;
  return refusal;
}

base::Result<JobId, Refusal> EngineThread::submit(Job job) {
  std::optional<Refusal> refusal = scheduler_->refuses(job);
  // Publishes first, so that a client that knows of a job's end finds it in the metrics.
  if (job.on_end)
    job.on_end = [this, on_end = std::move(job.on_end)](const JobOutcome& outcome) {
      publish();
      on_end(outcome);
    };
  // Allocates all memory here, where the caller gets the exception if there is none.
  RunningJobs one = job_list_of({}, std::move(job));
  const std::lock_guard lock(mutex_);
  if (!refusal) refusal = busy();
  if (refusal) {
    ++refused_;
    return *std::move(refusal);
  }
  const JobId id{std::exchange(next_, next_ + options_.job_stride)};
  one.front()->id = id;
  submitted_.splice(submitted_.end(), one);
  work_.notify_one();
  return id;
}

void EngineThread::cancel(JobId job) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(job);
  work_.notify_one();
}

void EngineThread::flush() {
  const std::lock_guard lock(mutex_);
  flush_ = true;
  work_.notify_one();
}

Metrics EngineThread::metrics() const {
  // Tiers also read and write while no job runs, so their counts never come from a snapshot.
  const TierCounts files = scheduler_->file_counts(), store = scheduler_->store_counts();
  const std::lock_guard lock(mutex_);
  Metrics all = stale_ && !busy_ && !stopping_ ? scheduler_->metrics() : metrics_;
  all.files = files;
  all.store = store;
  all.waiting += static_cast<uint32_t>(submitted_.size());
  for (const auto& running : submitted_) all.job_tokens += running->job.prompt.size();
  all.refused = refused_;
  return all;
}

CacheState EngineThread::cache() const {
  std::shared_ptr<const CacheState> cache;
  {
    const std::lock_guard lock(mutex_);
    if (map_is_old_ && !busy_ && !stopping_) return scheduler_->state();
    cache = cache_;
  }
  return *cache;
}

void EngineThread::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void EngineThread::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] {
    return !busy_ && !asked_ && !flush_ && submitted_.empty() && cancelled_.empty();
  });
}

// Takes snapshots. If that fails, most likely for lack of memory, others are taken later.
void EngineThread::publish() noexcept {
  try {
    Metrics metrics = scheduler_->metrics();
    const std::lock_guard lock(mutex_);
    metrics_ = std::move(metrics);
    stale_ = false;
    map_is_old_ = true;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    stale_ = map_is_old_ = true;
    return;
  }
  publish_map();
}

void EngineThread::publish_map() noexcept {
  const base::Clock clock = options_.batch.clock;
  const double began = clock();
  if (began < next_map_) return;
  try {
    auto cache = std::make_shared<const CacheState>(scheduler_->state());
    const std::lock_guard lock(mutex_);
    cache_.swap(cache);  // the old snapshot is freed after the mutex is released
    map_is_old_ = false;
  } catch (...) {  // the map stays old
  }
  const double now = clock();
  next_map_ = now + kMapPause * (now - began);
}

void EngineThread::work() noexcept {
  pool_.pin_caller();
  const base::Clock clock = options_.batch.clock;
  double published = clock();
  while (true) {
    RunningJobs jobs;
    std::vector<JobId> cancelled;
    bool flush = false;
    {
      std::unique_lock lock(mutex_);
      if (!busy_) idle_.notify_all();
      work_.wait(lock, [&] {
        return busy_ || stopping_ || asked_ || flush_ || !submitted_.empty() || !cancelled_.empty();
      });
      if (stopping_) break;
      jobs.swap(submitted_);
      cancelled.swap(cancelled_);
      // These jobs count as waiting until the scheduler has admitted them.
      waiting_ += static_cast<uint32_t>(jobs.size());
      metrics_.waiting += static_cast<uint32_t>(jobs.size());
      asked_ = false;
      flush = std::exchange(flush_, false);
      busy_ = true;
    }
    const bool some = !jobs.empty();
    if (flush) scheduler_->flush();
    add_all(jobs);
    for (const JobId id : cancelled) scheduler_->cancel(id);
    scheduler_->begin_step();
    count_waiting();
    if (some) publish();  // before a step that may take seconds
    const bool more = scheduler_->finish_step();
    const double now = clock();
    if (!more || now - published >= options_.snapshot_seconds) {
      publish();
      published = now;
    }
    const uint32_t waiting = count_waiting();
    const uint64_t begun = scheduler_->begun_jobs();
    const std::lock_guard lock(mutex_);
    busy_ = more;
    queue_pace_.observe(now, waiting, begun);
  }
  add_all(submitted_);
  scheduler_->cancel_all();
}

// Does not use the snapshot: if one failed, its old count would make submit() refuse jobs until the
// next job ends.
uint32_t EngineThread::count_waiting() noexcept {
  const uint32_t waiting = scheduler_->waiting_jobs();
  const std::lock_guard lock(mutex_);
  return waiting_ = waiting;
}

void EngineThread::add_all(RunningJobs& jobs) noexcept {
  while (!jobs.empty()) {
    RunningJobs one;
    one.splice(one.end(), jobs, jobs.begin());
    scheduler_->add(std::move(one));
  }
}

}  // namespace kvick::engine
