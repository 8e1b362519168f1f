#pragma once
// Worker threads for short parallel regions, thousands per second, on cores that other processes
// may also use.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/cores.h"
#include "base/function_ref.h"

namespace kvick::base {

// A fixed team of workers. The calling thread is worker 0, and the pool starts size()-1 threads. A
// waiting worker spins for about 50 us and then parks in the kernel. Spinning for ever, as OpenMP
// does, makes a region last a whole scheduler tick as soon as another process needs the core.
// Regions do not nest, and only one thread may call at a time.
class ThreadPool {
 public:
  // Starts a pool of `threads` (at least 1) without pinning them.
  explicit ThreadPool(unsigned threads) : ThreadPool(Team{.threads = threads, .processors = {}}) {}
  // Pins each started thread to its processor in `team`, if the team has processors; a caller may
  // pin itself with pin_caller(). Throws std::system_error if a thread cannot be started.
  explicit ThreadPool(const Team& team);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned size() const { return size_; }
  // Pins the calling thread to the processor of the team's worker 0; does nothing for a team
  // without processors.
  void pin_caller() const;

  // Calls body(worker) once on every worker and returns when all calls have returned. Rethrows the
  // first exception of a body after all have ended. Use it for work on the workers themselves,
  // because it waits even for a worker that has no core; parallel_for does not.
  void run(FunctionRef<void(unsigned worker)> body);

  // Calls body(begin, end, worker) for disjoint pieces that cover [0, count). Each worker first
  // takes pieces of `grain` from its own share, then from the others' shares. A worker that arrives
  // after all pieces are taken is not waited for. So a worker that loses its core delays the region
  // by at most the one piece that it has begun.
  void parallel_for(size_t count, size_t grain,
                    FunctionRef<void(size_t begin, size_t end, unsigned worker)> body);

 private:
  struct alignas(64) Share {
    std::atomic<size_t> next{0};
    size_t end = 0;
  };

  void pin(unsigned worker) const;
  void work(unsigned worker);
  void call(unsigned worker);
  void keep_error();
  // Calls body(0) here, and body(worker) on each worker that arrives before body(0) has returned. A
  // worker may be called twice.
  void region(FunctionRef<void(unsigned worker)> body);
  static void prepare_caller();
  bool enter();
  void leave();
  void stop();

  unsigned size_;
  std::vector<unsigned> processors_;  // index: worker; empty: not pinned
  std::vector<std::thread> threads_;
  std::vector<Share> shares_;
  FunctionRef<void(unsigned)>* body_ = nullptr;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // incremented at the start of every region
  // The number of workers inside the region; with kClosed set, no more may enter.
  static constexpr uint32_t kClosed = uint32_t{1} << 31;
  alignas(64) std::atomic<uint32_t> gate_{kClosed};
  std::atomic<bool> stop_{false};
};

}  // namespace kvick::base
