#include "base/thread_pool.h"

#include <algorithm>

#include "base/check.h"
#include "base/thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvick::base {
namespace {

// About 50 us of pauses: longer than most gaps between the regions of a step, about what a parked
// thread costs to wake on a virtual machine. With 10 us, 16 sequences of SmolLM2's shape decoded at
// 0.91 times the speed, prompts of 48 tokens were read at 0.89 and a server answered at 0.88.
//
// Beside two busy processes on two Zen 4 cores (Linux 6.18) decoding SmolLM2 runs at 0.3 times its
// speed alone, where 0.5 would be fair: a region waits for the worker whose core was taken. All
// workers calling sched_yield together, every 1, 2 or 4 ms while others want the cores, made that
// worse: 69, 55 and 81 tokens/s instead of 122.
constexpr int kSpins = 2000;

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // "yield" does nothing on most of them
#endif
}

// Returns once value is no longer `old`.
void await_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(const Team& team)
    : size_(team.threads), processors_(team.processors), shares_(team.threads) {
  KVICK_CHECK(size_ >= 1, "a pool of {} threads", size_);
  KVICK_CHECK(processors_.empty() || processors_.size() == size_, "{} processors for {} threads",
              processors_.size(), size_);
  threads_.reserve(size_ - 1);
  try {
    for (unsigned worker = 1; worker < size_; ++worker)
      threads_.push_back(start_thread("computing", [this, worker] {
        pin(worker);
        work(worker);
      }));
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// A processor that has been taken from the process meanwhile is no reason not to compute.
void ThreadPool::pin(unsigned worker) const {
  if (!processors_.empty()) (void)pin_this_thread(processors_[worker]);
}

void ThreadPool::pin_caller() const { pin(0); }

void ThreadPool::call(unsigned worker) {
  try {
    (*body_)(worker);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void ThreadPool::work(unsigned worker) {
  uint32_t seen = 0;
  while (true) {
    await_change(epoch_, seen);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    call(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadPool::run(FunctionRef<void(unsigned)> body) {
  body_ = &body;
  if (size_ > 1) {
    running_.store(size_ - 1, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }
  call(0);
  for (uint32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire))
    await_change(running_, left);
  body_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::parallel_for(size_t count, size_t grain,
                              FunctionRef<void(size_t, size_t, unsigned)> body) {
  if (count == 0) return;
  grain = std::max<size_t>(grain, 1);
  if (size_ == 1 || count <= grain) {
    body(0, count, 0);
    return;
  }
  for (unsigned i = 0; i < size_; ++i) {
    shares_[i].next.store(count * i / size_, std::memory_order_relaxed);
    shares_[i].end = count * (i + 1) / size_;
  }
  run([&](unsigned worker) {
    for (unsigned turn = 0; turn < size_; ++turn) {
      Share& share = shares_[(worker + turn) % size_];
      while (true) {
        const size_t begin = share.next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= share.end) break;
        body(begin, std::min(begin + grain, share.end), worker);
      }
    }
  });
}

}  // namespace kvick::base
