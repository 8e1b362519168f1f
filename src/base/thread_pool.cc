#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvick::base {
namespace {

// About 50 us of pauses: longer than most gaps between the regions of a step, and about the cost of
// waking a parked thread on a virtual machine. With 10 us, the speed was 0.91 times this for
// decoding 16 sequences of SmolLM2's shape, 0.89 for reading prompts of 48 tokens, and 0.88 for a
// server's answers.
constexpr int kSpins = 2000;

// When other processes take a worker's core, the workers that wait for it park and accumulate
// scheduler time. With a slice shorter than a scheduler tick they get their cores back as soon as
// they are woken, so all workers of a team run at about the same time (ADR 43).
constexpr std::chrono::microseconds kSlice{300};

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // "yield" does nothing on most ARM cores
#endif
}

// Spins, then parks, until `value` differs from `old`.
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
        (void)ask_for_slices(kSlice);
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

// A failure is ignored: the process can still compute after losing a processor of its affinity
// mask.
void ThreadPool::pin(unsigned worker) const {
  if (!processors_.empty()) (void)pin_this_thread(processors_[worker]);
}

void ThreadPool::pin_caller() const { pin(0); }

void ThreadPool::keep_error() {
  const std::lock_guard lock(error_mutex_);
  if (!error_) error_ = std::current_exception();
}

void ThreadPool::call(unsigned worker) {
  try {
    (*body_)(worker);
  } catch (...) {
    keep_error();
  }
}

// Worker 0 is whichever thread calls, so each calling thread asks once.
void ThreadPool::prepare_caller() {
  static thread_local const bool asked = (ask_for_slices(kSlice), true);
  (void)asked;
}

bool ThreadPool::enter() {
  uint32_t inside = gate_.load(std::memory_order_acquire);
  while ((inside & kClosed) == 0)
    if (gate_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire)) return true;
  return false;
}

void ThreadPool::leave() {
  if (gate_.fetch_sub(1, std::memory_order_acq_rel) == (kClosed | 1)) gate_.notify_one();
}

void ThreadPool::work(unsigned worker) {
  uint32_t seen = 0;
  while (true) {
    await_change(epoch_, seen);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;  // the region ended without this worker
    call(worker);
    leave();
  }
}

void ThreadPool::region(FunctionRef<void(unsigned)> body) {
  body_ = &body;
  if (size_ > 1) {
    prepare_caller();
    gate_.store(0, std::memory_order_release);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }
  call(0);
  for (uint32_t inside = gate_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
       inside != kClosed; inside = gate_.load(std::memory_order_acquire))
    await_change(gate_, inside);
  body_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::run(FunctionRef<void(unsigned)> body) {
  std::vector<char> called(size_, 0);
  std::atomic<uint32_t> left = size_;
  region([&](unsigned worker) {
    if (!std::exchange(called[worker], 1)) {
      try {
        body(worker);
      } catch (...) {
        keep_error();
      }
      if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) left.notify_all();
    }
    if (worker != 0) return;
    for (uint32_t now = left.load(std::memory_order_acquire); now != 0;
         now = left.load(std::memory_order_acquire))
      await_change(left, now);
  });
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
  region([&](unsigned worker) {
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
