#include "engine/prefix/prefix_tier.h"

#include <chrono>

namespace kvick::engine {

void PrefixTask::wait(double seconds) const {
  std::unique_lock lock(mutex_);
  finished_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return done(); });
}

void PrefixTask::finish() {
  // Needs the lock: otherwise a waiter could check just before and miss the notification.
  const std::lock_guard lock(mutex_);
  done_.store(true, std::memory_order_release);
  finished_.notify_all();
}

void PrefixRead::add(std::string bytes) {
  const size_t at = ready_.load(std::memory_order_relaxed);
  blocks_[at] = std::move(bytes);
  ready_.store(at + 1, std::memory_order_release);
}

}  // namespace kvick::engine
