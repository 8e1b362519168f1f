#pragma once
// What the prefix caches of a service hold, as a stream of events for those who watch from outside.
// Several stores (of instances) are one: a block is there as long as one of them has it.
//
// The stores' threads never wait for the reader. Events that it does not take in time are dropped:
// then it hears that all is gone, and of blocks that come after that.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kv/values/prefix_watcher.h"

namespace kvick::engine {

struct PrefixEvent {
  enum class Kind { kStored, kRemoved, kCleared };
  Kind kind = Kind::kCleared;
  uint64_t id = 0, parent = 0;         // as in kv::SharedBlock
  std::vector<kv::Token> tokens = {};  // of a stored block
};

class PrefixEvents final : public kv::PrefixWatcher {
 public:
  // The first event is kCleared: whoever knew an earlier process forgets it.
  explicit PrefixEvents(size_t most_queued = size_t{1} << 16);

  void stored(const kv::SharedBlock& block) noexcept override;
  void removed(uint64_t id) noexcept override;

  // All events since the last call, in their order. Throws std::bad_alloc: then they are still
  // there, and on_some's function was called.
  std::vector<PrefixEvent> take();
  // Called when there is something to take again, on the thread that brought it, which must not be
  // held up; null: nobody is.
  void on_some(std::function<void()> some);
  uint64_t dropped() const;  // events

 private:
  // What a reader who takes all events knows of a block.
  struct Known {
    uint32_t holders = 0;
    uint64_t told = 0;  // in which era it heard of it
  };
  template <typename Change>
  void change(const Change& change) noexcept;
  void push(PrefixEvent event);
  void clear() noexcept;

  const size_t most_queued_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Known> known_;
  std::vector<PrefixEvent> queue_;
  uint64_t era_ = 1;  // ends when all is cleared
  uint64_t dropped_ = 0;
  std::function<void()> some_;
};

}  // namespace kvick::engine
