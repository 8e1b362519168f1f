#pragma once
// One budget for the schedulers of several instances: what each has for the others, and who makes
// way for whom. Only a scheduler's own thread may touch its stores, so who lacks memory asks, and
// those that have it give between two steps of theirs. Jobs rank over all instances as they do in
// one, and nobody makes way for a job that ranks behind, so that of all jobs the first gets to its
// end.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kv/strategy/budget.h"

namespace kvick::engine {

// A job's place among those of all instances: by its order, and of equals the earlier id.
struct Rank {
  double order = 0;  // higher goes first
  uint64_t job = 0;
  bool ahead_of(const Rank& other) const {
    return order > other.order || (order == other.order && job < other.job);
  }
};

// Bytes for a job, of cached rows or of jobs that rank behind it.
struct MemoryAsk {
  uint64_t bytes = 0;
  std::optional<Rank> rank;  // none: of cached rows only
};

// What a scheduler has and wants.
struct MemoryHeld {
  bool runs = false;  // a job, which has rows or will have
  uint64_t cached_bytes = 0;
  MemoryAsk wanted;  // by its first job that has no room: not for those that rank behind it
};

class MemoryShare {
 public:
  MemoryShare(uint64_t bytes, size_t members);

  const std::shared_ptr<kv::Budget>& budget() const { return budget_; }

  // The calls of one member. `wake` is called, from other members' threads, when it is asked; none
  // to be left alone, once that has returned.
  void on_ask(size_t member, std::function<void()> wake);
  void publish(size_t member, const MemoryHeld& held);
  // Before a job's first row.
  void begin_to_run(size_t member);
  // Asks all others.
  void ask(size_t member, const MemoryAsk& ask);
  // What others have asked of it since the last call.
  MemoryAsk take_ask(size_t member);
  // Of all others: whether a job of theirs runs, cached bytes, and bytes that those of their jobs
  // want that go ahead of a rank.
  struct Others {
    bool run = false;
    uint64_t cached_bytes = 0, wanted_bytes = 0;
    bool have_any() const { return run || cached_bytes > 0; }
  };
  Others others(size_t member, const Rank& rank) const;
  // Until somebody publishes something, but no longer than so many seconds.
  void wait(double seconds);

 private:
  struct Member {
    MemoryHeld held;
    MemoryAsk asked;
    std::function<void()> wake;
  };

  std::shared_ptr<kv::Budget> budget_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t changes_ = 0;
  std::vector<Member> members_;
};

}  // namespace kvick::engine
