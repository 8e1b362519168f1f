#pragma once
// Tells readers outside the process, as a stream of events, what the prefix caches of a service
// hold. The stores of all instances count as one: a block is there as long as one of them has it.
//
// The stores' threads never wait for the reader. If it is too slow, the queued events are dropped:
// it then reads kCleared, and after that the blocks that are stored later.

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
  // The first event is kCleared, so that readers forget what an earlier process told them.
  explicit PrefixEvents(size_t most_queued = size_t{1} << 16);

  void stored(const kv::SharedBlock& block) noexcept override;
  void removed(uint64_t id) noexcept override;

  // Returns all events since the last call, in order. If it throws std::bad_alloc, they stay queued
  // and on_some's function was called.
  std::vector<PrefixEvent> take();
  // Sets the function that is called when the empty queue gets an event, on the thread that adds
  // it: it must not block. null: none. Calls it at once if events are queued.
  void on_some(std::function<void()> some);
  uint64_t dropped() const;  // events

 private:
  // A block that at least one store has.
  struct Known {
    uint32_t holders = 0;  // stores
    uint64_t told = 0;     // the era in which kStored was queued for it
  };
  template <typename Change>
  void change(const Change& change) noexcept;
  void push(PrefixEvent event);
  void clear() noexcept;

  const size_t most_queued_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Known> known_;
  std::vector<PrefixEvent> queue_;
  uint64_t era_ = 1;  // clear() begins the next one
  uint64_t dropped_ = 0;
  std::function<void()> some_;
};

}  // namespace kvick::engine
