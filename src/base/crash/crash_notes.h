#pragma once
// What a crash report (crash_report.h) says of the work that was under way: the requests of each
// engine's step. Written by the engines, read by a signal handler, so it is made of atomics and has
// a fixed size.

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace kvick::base {

class CrashNotes {
 public:
  static constexpr size_t kLanes = 64, kMostRequests = 64;

  // The notes of one engine. Requests of a step beyond kMostRequests are only counted.
  struct Lane {
    std::atomic<bool> taken = false;
    std::atomic<size_t> count = 0;
    std::array<std::atomic<const char*>, kMostRequests> requests = {};
  };

  class Step;

  // A lane for as long as it lives; without notes, or where none is free, its steps are not noted.
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

  // The step of an engine that runs while this lives.
  class Step {
   public:
    explicit Step(Engine& engine) : lane_(engine.lane_) {}
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    ~Step() {
      if (lane_ != nullptr) lane_->count = 0;
    }
    // A text that outlives this.
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
