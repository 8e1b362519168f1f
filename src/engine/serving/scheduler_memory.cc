// Scheduler: memory shared with other schedulers.

#include <algorithm>

#include "engine/serving/scheduler.h"

namespace kvick::engine {

// Returns the bytes that a job of this rank can get: free and cached ones, cached ones of other
// schedulers too, less what those want for jobs that rank ahead.
uint64_t Scheduler::available_bytes(const Rank& rank) const {
  // Cached rows of the draft model can be evicted too.
  const uint64_t stores = stores_.available_bytes();
  const uint64_t drafts = speculation_.draft_usage().cached_bytes;
  const uint64_t own = stores + std::min(stores_.max_bytes() - stores, drafts);
  if (options_.memory == nullptr) return own;
  const MemoryShare::Others others = options_.memory->others(options_.member, rank);
  const uint64_t all = std::min(own + others.cached_bytes, stores_.max_bytes());
  return all - std::min(all, others.wanted_bytes);
}

// Whether other schedulers run jobs, or want memory for a job that ranks ahead.
bool Scheduler::others_run_or_want(const Rank& rank) const {
  if (options_.memory == nullptr) return false;
  const MemoryShare::Others others = options_.memory->others(options_.member, rank);
  return others.run || others.wanted_bytes > 0;
}

// Asks other schedulers for memory for a job that found none. Returns true if the job should wait
// for it. Others evict cached rows first, then preempt lower-ranked jobs; they are asked for the
// latter only if no other job runs here.
bool Scheduler::wait_for_others(const RunningJob& running, uint64_t bytes) {
  if (options_.memory == nullptr) return false;
  const MemoryShare::Others others = options_.memory->others(options_.member, running.rank());
  if (others.cached_bytes == 0 && (!others.run || running_.size() > 1)) return false;
  wanted_ = {.bytes = bytes, .rank = running.rank()};
  MemoryAsk ask = wanted_;
  if (others.cached_bytes > 0) ask.rank.reset();
  options_.memory->ask(options_.member, ask);
  return true;
}

// If this breaks a store, the next step replaces it, as if a job had broken it.
void Scheduler::flush() noexcept {
  try {
    stores_.shrink(UINT64_MAX);
  } catch (...) {
    report(std::current_exception());
  }
  try {
    speculation_.shrink(UINT64_MAX);
  } catch (...) {
    speculation_.distrust();
    report(std::current_exception());
  }
}

void Scheduler::give_to_others() {
  if (options_.memory == nullptr) return;
  const MemoryAsked asked = options_.memory->take_ask(options_.member);
  if (asked.bytes == 0) return;
  const auto held = [&] {
    return stores_.usage().allocated_bytes + speculation_.draft_usage().allocated_bytes;
  };
  const uint64_t had = held();
  const auto lacks = [&](uint64_t wanted) {
    return wanted - std::min(wanted, had - std::min(had, held()));
  };
  const auto shrink = [&](uint64_t wanted) {
    if (lacks(wanted) > 0) speculation_.shrink(lacks(wanted));
    if (lacks(wanted) > 0) stores_.shrink(lacks(wanted));
  };
  shrink(asked.bytes);
  if (!asked.job || lacks(asked.job->bytes) == 0) return;
  speculation_.give_up();
  if (lacks(asked.job->bytes) == 0) return;
  std::vector<RunningJob*> behind;
  do {
    behind.clear();
    for (const auto& running : running_)
      if (asked.job->rank->ahead_of(running->rank())) behind.push_back(running.get());
    if (behind.empty()) return;
    preempt(victim(behind));
    shrink(asked.job->bytes);
  } while (lacks(asked.job->bytes) > 0);
}

void Scheduler::tell_others() {
  if (options_.memory == nullptr) return;
  options_.memory->publish(
      options_.member,
      {.runs = !running_.empty(),
       .cached_bytes = stores_.usage().cached_bytes + speculation_.draft_usage().cached_bytes,
       .wanted = wanted_});
}

base::Result<kv::SeqId, kv::Shortage> Scheduler::fork(StoreKind& kind, kv::SeqId from) {
  while (true) {
    auto seq = kind.change([&](kv::Store& store) { return store.fork(from); });
    if (seq.ok()) return seq;
    const uint64_t needed = seq.error().needed_bytes;
    if (stores_.shrink(needed) == 0 && speculation_.shrink(needed) == 0 &&
        speculation_.give_up() == 0)
      return seq;
  }
}

// Handles a job that finds no room in the middle of a step: preempts it if other jobs, of any
// instance, may free memory; else ends it.
void Scheduler::preempt_or_end(RunningJob& running, const kv::Shortage& shortage) {
  if (running_.size() > 1 || wait_for_others(running, shortage.needed_bytes))
    return preempt(running);
  end(running, refusal_of(shortage));
}

Refusal Scheduler::refusal_of(const kv::Shortage& shortage) {
  using Why = Refusal::Why;
  return {shortage.out_of_memory ? Why::kFailed : Why::kTooLarge, shortage.what, ""};
}

}  // namespace kvick::engine
