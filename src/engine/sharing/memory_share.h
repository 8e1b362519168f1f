#pragma once
// One memory budget for the schedulers of several instances: what each can give, and which jobs are
// preempted for which. Only a scheduler's own thread may touch its stores, so a scheduler without
// memory asks the others, which give memory back between two of their steps. Jobs are ranked over
// all instances as in one. A job is never preempted for a lower-ranked one, so the top job always
// finishes.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kv/strategy/budget.h"

namespace kvick::engine {

// A job's rank among those of all instances: by order, ties by the earlier id.
struct Rank {
  double order = 0;  // higher goes first
  uint64_t job = 0;
  bool ahead_of(const Rank& other) const {
    return order > other.order || (order == other.order && job < other.job);
  }
};

// Bytes wanted for a job, from cached rows or by preempting lower-ranked jobs.
struct MemoryAsk {
  uint64_t bytes = 0;
  std::optional<Rank> rank;  // of that job; none: cached rows only
};

// What others asked of a member.
struct MemoryAsked {
  uint64_t bytes = 0;            // the largest ask, from cached rows
  std::optional<MemoryAsk> job;  // the ask of the highest-ranked job, which may preempt others
};

// What a scheduler has and wants.
struct MemoryHeld {
  bool runs = false;  // whether a job runs, with rows now or soon
  uint64_t cached_bytes = 0;
  MemoryAsk wanted;  // by its highest-ranked job without room; lower-ranked ones do not count
};

class MemoryShare {
 public:
  MemoryShare(uint64_t bytes, size_t members);

  const std::shared_ptr<kv::Budget>& budget() const { return budget_; }

  // Sets the function that ask() of other members calls, on their threads, to wake this one. Null:
  // no call any more once this has returned.
  void on_ask(size_t member, std::function<void()> wake);
  void publish(size_t member, const MemoryHeld& held);
  // Marks the member as running, before its first job gets rows.
  void begin_to_run(size_t member);
  // Asks all others.
  void ask(size_t member, const MemoryAsk& ask);
  // What others have asked of it since the last call.
  MemoryAsked take_ask(size_t member);
  // Over all other members: whether any runs a job, their cached bytes, and the bytes wanted by
  // those of their jobs that rank ahead of `rank`.
  struct Others {
    bool run = false;
    uint64_t cached_bytes = 0, wanted_bytes = 0;
  };
  Others others(size_t member, const Rank& rank) const;
  // Waits until some member publishes, at most `seconds`.
  void wait(double seconds);

 private:
  struct Member {
    MemoryHeld held;
    MemoryAsked asked;
    std::function<void()> wake;
  };

  std::shared_ptr<kv::Budget> budget_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t changes_ = 0;
  std::vector<Member> members_;
};

}  // namespace kvick::engine
