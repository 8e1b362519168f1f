#include "engine/prefix/prefix_events.h"

#include <new>
#include <utility>

namespace kvick::engine {

// The queue always has capacity for kCleared, so that clear() allocates nothing.
PrefixEvents::PrefixEvents(size_t most_queued) : most_queued_(most_queued) {
  queue_.reserve(1);
  queue_.push_back({.kind = PrefixEvent::Kind::kCleared});
}

void PrefixEvents::clear() noexcept {
  dropped_ += queue_.size() + 1;
  queue_.clear();
  queue_.push_back({.kind = PrefixEvent::Kind::kCleared});
  ++era_;
}

void PrefixEvents::push(PrefixEvent event) {
  if (queue_.size() >= most_queued_) return clear();
  queue_.push_back(std::move(event));
}

template <typename Change>
void PrefixEvents::change(const Change& change) noexcept {
  const std::lock_guard lock(mutex_);
  const bool had = !queue_.empty();
  try {
    change();
  } catch (const std::bad_alloc&) {
    clear();
  }
  if (!had && !queue_.empty() && some_) some_();
}

void PrefixEvents::stored(const kv::SharedBlock& block) noexcept {
  change([&] {
    Known& known = known_[block.id];
    ++known.holders;
    if (std::exchange(known.told, era_) == era_) return;
    push({.kind = PrefixEvent::Kind::kStored,
          .id = block.id,
          .parent = block.parent,
          .tokens = {block.tokens.begin(), block.tokens.end()}});
  });
}

void PrefixEvents::removed(uint64_t id) noexcept {
  change([&] {
    const auto found = known_.find(id);
    if (found == known_.end() || --found->second.holders > 0) return;
    const bool told = found->second.told == era_;
    known_.erase(found);
    if (told) push({.kind = PrefixEvent::Kind::kRemoved, .id = id});
  });
}

std::vector<PrefixEvent> PrefixEvents::take() {
  std::vector<PrefixEvent> next;
  const std::lock_guard lock(mutex_);
  try {
    next.reserve(1);
  } catch (const std::bad_alloc&) {  // an event that comes later would not wake the reader
    if (some_ && !queue_.empty()) some_();
    throw;
  }
  queue_.swap(next);
  return next;
}

void PrefixEvents::on_some(std::function<void()> some) {
  const std::lock_guard lock(mutex_);
  some_ = std::move(some);
  if (some_ && !queue_.empty()) some_();
}

uint64_t PrefixEvents::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace kvick::engine
