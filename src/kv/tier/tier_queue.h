#pragma once
// Threads that move bytes by blocking calls: used by tiers in memory and by files read with pread.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "kv/tier/tier.h"

namespace kvick::kv {

class TierQueue {
 public:
  struct Outcome {
    std::string error;  // see Moved
    double due = 0;     // not reported before this time of steady_seconds()
  };
  // move: called from the threads.
  TierQueue(unsigned threads, std::function<Outcome(const Transfer&)> move);
  ~TierQueue();
  TierQueue(const TierQueue&) = delete;
  TierQueue& operator=(const TierQueue&) = delete;

  void start(std::span<const Transfer> transfers);
  void finish(double seconds, std::vector<Moved>& ended);

 private:
  struct Ended {
    Moved moved;
    double due;
  };
  void work();
  void stop();
  bool take_due(std::vector<Moved>& ended);
  double first_due() const;

  std::function<Outcome(const Transfer&)> move_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<Transfer> waiting_;
  std::vector<Ended> ended_;
  size_t moving_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvick::kv
