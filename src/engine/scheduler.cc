#include "engine/scheduler.h"

#include <fmt/format.h>

namespace kvick::engine {

base::Result<std::unique_ptr<Scheduler>> Scheduler::make(Engine& engine,
                                                         const SchedulerOptions& options) {
  KVICK_TRY(std::unique_ptr<Batcher> batcher, Batcher::make(engine, options.batch));
  return std::unique_ptr<Scheduler>(new Scheduler(engine, options, std::move(batcher)));
}

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options,
                     std::unique_ptr<Batcher> batcher)
    : pool_(engine.pool()),
      options_(options),
      batcher_(std::move(batcher)),
      context_(engine.most_tokens(options.batch.kv)),
      next_(options.first_job) {
  publish();
  thread_ = std::thread([this] { work(); });
  if (options_.batch.memory != nullptr)
    options_.batch.memory->on_ask(options_.batch.member, [this] {
      const std::lock_guard lock(mutex_);
      asked_ = true;
      work_.notify_one();
    });
}

Scheduler::~Scheduler() {
  if (options_.batch.memory != nullptr)
    options_.batch.memory->on_ask(options_.batch.member, nullptr);
  {
    const std::lock_guard lock(mutex_);
    draining_ = stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

base::Result<JobId, Refusal> Scheduler::submit(Job job) {
  using Why = Refusal::Why;
  std::optional<Refusal> refusal = batcher_->refuses(job);
  const std::lock_guard lock(mutex_);
  if (!refusal && draining_) refusal = Refusal{Why::kBusy, "the server is shutting down", ""};
  if (!refusal && metrics_.waiting + submitted_.size() >= options_.most_waiting)
    refusal = Refusal{
        Why::kBusy,
        fmt::format("{} requests are waiting already; try again later", options_.most_waiting), ""};
  if (refusal) {
    ++refused_;
    return *std::move(refusal);
  }
  const JobId id{std::exchange(next_, next_ + options_.job_stride)};
  submitted_.emplace_back(id, std::move(job));
  work_.notify_one();
  return id;
}

void Scheduler::cancel(JobId job) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(job);
  work_.notify_one();
}

Metrics Scheduler::metrics() const {
  const std::lock_guard lock(mutex_);
  // What files are written to and read from goes on when no job runs.
  Metrics all = busy_ || stopping_ ? metrics_ : batcher_->metrics();
  all.waiting += static_cast<uint32_t>(submitted_.size());
  all.refused = refused_;
  return all;
}

CacheState Scheduler::cache() const {
  const std::lock_guard lock(mutex_);
  return cache_;
}

void Scheduler::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void Scheduler::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return !busy_ && submitted_.empty() && cancelled_.empty(); });
}

void Scheduler::publish() {
  Metrics metrics = batcher_->metrics();
  CacheState cache = batcher_->state();
  const std::lock_guard lock(mutex_);
  metrics_ = metrics;
  cache_ = std::move(cache);
}

void Scheduler::work() {
  pool_.pin_caller();
  const base::Clock clock = options_.batch.clock;
  double published = clock();
  while (true) {
    std::vector<std::pair<JobId, Job>> jobs;
    std::vector<JobId> cancelled;
    {
      std::unique_lock lock(mutex_);
      if (!busy_) idle_.notify_all();
      work_.wait(lock, [&] {
        return busy_ || stopping_ || asked_ || !submitted_.empty() || !cancelled_.empty();
      });
      if (stopping_) break;
      jobs.swap(submitted_);
      cancelled.swap(cancelled_);
      asked_ = false;
      busy_ = true;
    }
    for (auto& [id, job] : jobs) batcher_->add(id, std::move(job));
    for (const JobId id : cancelled) batcher_->cancel(id);
    const bool more = batcher_->step();
    const double now = clock();
    if (!more || now - published >= options_.snapshot_seconds || !jobs.empty()) {
      publish();
      published = now;
    }
    const std::lock_guard lock(mutex_);
    busy_ = more;
  }
  for (auto& [id, job] : submitted_) batcher_->add(id, std::move(job));
  batcher_->cancel_all();
}

}  // namespace kvick::engine
