#pragma once
// A service that answers with scripted words on its own thread.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/serving/service.h"

namespace kvick::server {

// Answers each job with the words "w0 w1 ...", max_tokens of them, round robin over all jobs. A
// job's salt changes that. "hold": stops after the first word until the job is cancelled. "flood":
// writes long words until the job is cancelled. "pause": waits for release().
class ScriptedService : public engine::Service {
 public:
  ScriptedService() : thread_([this] { work(); }) {}
  ~ScriptedService() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  base::Result<engine::JobId, engine::Refusal> submit(engine::Job job) override {
    const std::lock_guard lock(mutex_);
    running_.push_back({.id = ++last_id_, .job = std::move(job)});
    changed_.notify_all();
    return engine::JobId(last_id_);
  }
  void cancel(engine::JobId job) override {
    const std::lock_guard lock(mutex_);
    for (Running& one : running_) one.cancelled |= engine::JobId(one.id) == job;
    changed_.notify_all();
  }
  void flush() override {}
  engine::Metrics metrics() const override { return {}; }
  engine::CacheState cache() const override { return {}; }
  uint32_t context() const override { return 512; }

  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  // Return false after 10 s.
  bool wait_for_cancellations(size_t n) {
    return wait([&] { return cancellations_ >= n; });
  }
  bool wait_for_ends(size_t n) {
    return wait([&] { return ends_ >= n; });
  }
  bool wait_for_jobs(size_t n) {
    return wait([&] { return last_id_ >= n; });
  }

 private:
  struct Running {
    uint64_t id = 0;
    engine::Job job;
    uint32_t given = 0;
    bool cancelled = false;
  };

  bool wait(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), condition);
  }
  bool can_go(const Running& one) const {
    if (one.cancelled) return true;
    if (one.job.salt == "pause") return released_;
    return one.job.salt != "hold" || one.given == 0;
  }
  // Writes one word of a job; returns true if the job has ended.
  bool advance(Running& one) {
    if (one.cancelled) {
      ++cancellations_;
      one.job.on_end({});
      return true;
    }
    std::string word = fmt::format("{}w{}", one.given > 0 ? " " : "", one.given);
    if (one.job.salt == "flood") word = std::string(8192, 'x');
    const bool last = ++one.given == one.job.max_tokens && one.job.salt != "flood";
    for (uint32_t choice = 0; choice < one.job.choices; ++choice) {
      engine::AnswerPiece piece = {.choice = choice, .text = word};
      if (last) piece.finish = engine::Finish::kLength;
      one.job.on_piece(std::move(piece));
    }
    if (last)
      one.job.on_end({.prompt_tokens = static_cast<uint32_t>(one.job.prompt.size()),
                      .generated_tokens = one.given * one.job.choices});
    return last;
  }
  void work() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      bool went = false;
      for (size_t i = 0; i < running_.size();) {
        const bool can = can_go(running_[i]);
        went |= can;
        if (!can || !advance(running_[i])) {
          ++i;
          continue;
        }
        running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
        ++ends_;
      }
      changed_.notify_all();
      if (went)  // lets other threads submit and cancel
        lock.unlock(), std::this_thread::yield(), lock.lock();
      else
        changed_.wait(lock);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Running> running_;
  uint64_t last_id_ = 0;
  size_t cancellations_ = 0, ends_ = 0;
  bool ending_ = false, released_ = false;
  std::thread thread_;
};

}  // namespace kvick::server
