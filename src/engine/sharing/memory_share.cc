#include "engine/sharing/memory_share.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kvick::engine {

MemoryShare::MemoryShare(uint64_t bytes, size_t members)
    : budget_(std::make_shared<kv::Budget>(bytes)), members_(members) {}

void MemoryShare::on_ask(size_t member, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  members_[member].wake = std::move(wake);
}

void MemoryShare::publish(size_t member, const MemoryHeld& held) {
  const std::lock_guard lock(mutex_);
  members_[member].held = held;
  ++changes_;
  changed_.notify_all();
}

void MemoryShare::begin_to_run(size_t member) {
  const std::lock_guard lock(mutex_);
  members_[member].held.runs = true;
}

void MemoryShare::ask(size_t member, const MemoryAsk& ask) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < members_.size(); ++i) {
    if (i == member) continue;
    MemoryAsked& asked = members_[i].asked;
    asked.bytes = std::max(asked.bytes, ask.bytes);
    // Bytes and rank come from one ask: with the largest bytes of all asks, jobs could be preempted
    // for a lower-ranked one. That one asks again once it ranks highest.
    if (ask.rank && (!asked.job || !asked.job->rank->ahead_of(*ask.rank))) asked.job = ask;
    if (members_[i].wake) members_[i].wake();
  }
}

MemoryAsked MemoryShare::take_ask(size_t member) {
  const std::lock_guard lock(mutex_);
  return std::exchange(members_[member].asked, {});
}

MemoryShare::Others MemoryShare::others(size_t member, const Rank& rank) const {
  const std::lock_guard lock(mutex_);
  Others all;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (i == member) continue;
    const MemoryHeld& held = members_[i].held;
    all.run = all.run || held.runs;
    all.cached_bytes += held.cached_bytes;
    if (held.wanted.rank && held.wanted.rank->ahead_of(rank)) all.wanted_bytes += held.wanted.bytes;
  }
  return all;
}

void MemoryShare::wait(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&, before = changes_] { return changes_ != before; });
}

}  // namespace kvick::engine
