#pragma once
// Workers that compute together: short parallel regions, thousands a second, on cores that may be
// shared with others.

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

// A fixed team. The calling thread is worker 0; size()-1 threads are started. A waiting worker
// spins for a few microseconds and then parks in the kernel: spinning for ever, as OpenMP does,
// makes a region last a whole scheduler tick as soon as somebody else needs the core. Regions do
// not nest; one caller at a time.
class ThreadPool {
 public:
  // threads: at least 1, wherever the system puts them.
  explicit ThreadPool(unsigned threads) : ThreadPool(Team{.threads = threads, .processors = {}}) {}
  // Each started thread stays on the team's processor for it; so does a caller that pins itself.
  // Throws std::system_error if a thread cannot be started.
  explicit ThreadPool(const Team& team);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned size() const { return size_; }
  // Pins the calling thread to the processor of the team's worker 0; does nothing for a team
  // without processors.
  void pin_caller() const;

  // Calls body(worker) once on every worker and returns when all have returned. The first exception
  // that a body throws is thrown here, after all have ended. For what is about the workers
  // themselves; parallel_for does not wait for one that has no core.
  void run(FunctionRef<void(unsigned worker)> body);

  // Calls body(begin, end, worker) for pieces that together are [0, count). Each worker first takes
  // its own share in pieces of `grain`, then helps the others with theirs. A worker that comes when
  // all pieces are taken is not waited for, so one whose core is taken away costs one piece if it
  // had begun it and nothing otherwise.
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
  // Calls body(0) here and body(worker) on each worker that arrives before body(0) has returned; it
  // may call a worker twice.
  void region(FunctionRef<void(unsigned worker)> body);
  static void prepare_caller();
  bool enter();
  void leave();
  void stop();

  unsigned size_;
  std::vector<unsigned> processors_;  // by worker, or none
  std::vector<std::thread> threads_;
  std::vector<Share> shares_;
  FunctionRef<void(unsigned)>* body_ = nullptr;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // raised at the start of every region
  // How many workers are inside this region, and whether more may enter.
  static constexpr uint32_t kClosed = uint32_t{1} << 31;
  alignas(64) std::atomic<uint32_t> gate_{kClosed};
  std::atomic<bool> stop_{false};
};

}  // namespace kvick::base
