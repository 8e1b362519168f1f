#pragma once
// The requests that each engine's running step works on, for the crash report (crash_report.h).
// Engines write these notes and a signal handler reads them, so they consist of atomics and have a
// fixed size.

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace kvick::base {

class CrashNotes {
 public:
  static constexpr size_t kLanes = 64, kMostRequests = 64;

  // The notes of one engine. count: all requests of the step; only the first kMostRequests are
  // kept.
  struct Lane {
    std::atomic<bool> taken = false;
    std::atomic<size_t> count = 0;
    std::array<std::atomic<const char*>, kMostRequests> requests = {};
  };

  class Step;

  // Owns a lane of `notes` for its lifetime. If `notes` is null or no lane is free, the engine's
  // steps are not noted.
  class Engine {
   public:
    explicit Engine(CrashNotes* notes = nullptr) {
      for (size_t i = 0; notes != nullptr && lane_ == nullptr && i < kLanes; ++i)
        if (!notes->lanes[i].taken.exchange(true)) lane_ = &notes->lanes[i];
    }
    Engine(Engine&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
    Engine& operator=(Engine&& other) noexcept {
      std::swap(lane_, other.lane_);
      return *this;
    }
    ~Engine() {
      if (lane_ != nullptr) lane_->taken = false;
    }

   private:
    friend class Step;
    Lane* lane_ = nullptr;
  };

  // Notes one step of an engine; it lives as long as the step runs.
  class Step {
   public:
    explicit Step(Engine& engine) : lane_(engine.lane_) {}
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    ~Step() {
      if (lane_ != nullptr) lane_->count = 0;
    }
    // Adds a request's id. The text must outlive this object.
    void add(const char* request) {
      if (lane_ == nullptr) return;
      const size_t at = lane_->count;
      if (at < kMostRequests) lane_->requests[at] = request;
      lane_->count = at + 1;
    }

   private:
    Lane* lane_;
  };

  std::array<Lane, kLanes> lanes = {};
};

}  // namespace kvick::base
