#include "kv/tier/tier_queue.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/thread.h"

namespace kvick::kv {

TierQueue::TierQueue(unsigned threads, std::function<Outcome(const Transfer&)> move)
    : move_(std::move(move)) {
  threads_.reserve(threads);
  try {
    for (unsigned i = 0; i < threads; ++i)
      threads_.push_back(base::start_thread("a slower tier of the cache", [this] { work(); }));
  } catch (...) {
    stop();
    throw;
  }
}

TierQueue::~TierQueue() { stop(); }

void TierQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TierQueue::start(std::span<const Transfer> transfers) {
  {
    const std::lock_guard lock(mutex_);
    // Reserve room for the result of each transfer: a thread could not report a failed allocation.
    const size_t most = ended_.size() + waiting_.size() + moving_ + transfers.size();
    if (most > ended_.capacity()) ended_.reserve(std::max(most, 2 * ended_.capacity()));
    waiting_.insert(waiting_.end(), transfers.begin(), transfers.end());
  }
  if (transfers.size() == 1)
    work_.notify_one();
  else
    work_.notify_all();
}

void TierQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Transfer transfer = waiting_.front();
    waiting_.pop_front();
    ++moving_;
    lock.unlock();
    Outcome outcome;
    try {
      outcome = move_(transfer);
    } catch (...) {
      outcome.error = "no memory";
    }
    lock.lock();
    --moving_;
    ended_.push_back({{transfer.tag, std::move(outcome.error)}, outcome.due});
    done_.notify_one();
  }
}

bool TierQueue::take_due(std::vector<Moved>& ended) {
  const double now = base::steady_seconds();
  ended.reserve(ended.size() + ended_.size());  // first: an exception here loses no ended transfer
  const auto is_due = [&](const Ended& one) { return one.due <= now; };
  const auto later = std::stable_partition(ended_.begin(), ended_.end(), is_due);
  for (auto one = ended_.begin(); one != later; ++one) ended.push_back(std::move(one->moved));
  const bool some = later != ended_.begin();
  ended_.erase(ended_.begin(), later);
  return some;
}

double TierQueue::first_due() const {
  double first = std::numeric_limits<double>::infinity();
  for (const Ended& one : ended_) first = std::min(first, one.due);
  return first;
}

void TierQueue::finish(double seconds, std::vector<Moved>& ended) {
  std::unique_lock lock(mutex_);
  const double until = base::steady_seconds() + seconds;
  while (!take_due(ended)) {
    const double now = base::steady_seconds();
    if (now >= until || (waiting_.empty() && moving_ == 0 && ended_.empty())) return;
    const double next = std::min({until, first_due(), now + 1.0});
    done_.wait_for(lock, std::chrono::duration<double>(std::max(next - now, 0.0)));
  }
}

}  // namespace kvick::kv
