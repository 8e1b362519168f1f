// Scheduler: which jobs find room, and memory shared with other schedulers.

#include <algorithm>

#include "engine/serving/scheduler.h"
#include "kv/strategy/facet_calls.h"

namespace kvick::engine {
namespace {

// Returns what a cache takes while a step reads a piece of `piece` tokens of a prompt, in addition
// to the rows that stay. tokens: those of the sequence behind the piece. Only policies that forget
// keep a step's rows, and their scores, apart until it ends.
uint64_t piece_bytes(const Engine& engine, const StoreKind& kind, uint32_t tokens, uint64_t piece) {
  if (!kind.traits.forgets || piece < 2) return 0;
  kv::Load load = {.tokens = std::clamp(tokens, 1U, kind.most_tokens)};
  const auto rows = engine.cost(kind.options, load);
  load.step = static_cast<uint32_t>(piece);
  const auto all = engine.cost(kind.options, load);
  return rows.ok() && all.ok() ? all->fast_bytes - rows->fast_bytes : 0;
}

// Returns the bytes that a sequence of `committed` tokens will take for `tokens` more, beyond those
// it has. What a policy that forgets keeps follows from the number of tokens: behind a budget of
// rows it grows no more.
uint64_t growth_bytes(const StoreSet& stores, const StoreKind& kind, uint32_t committed,
                      uint64_t tokens) {
  if (!kind.traits.forgets) return StoreSet::growth_bytes(kind, committed, tokens);
  const auto then = static_cast<uint32_t>(std::min<uint64_t>(committed + tokens, UINT32_MAX));
  const uint64_t needed = stores.needed_bytes(kind, then, 1);
  return needed - std::min(needed, stores.needed_bytes(kind, committed, 1));
}

}  // namespace

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

// Returns the tokens by which an answer must be able to grow when a job is admitted.
uint32_t Scheduler::headroom_of(const RunningJob& one, const AnswerSequence& answer) const {
  const uint64_t written = answer.length() - one.outcome.prompt_tokens;
  const uint64_t most = one.most_tokens();
  return static_cast<uint32_t>(
      std::min<uint64_t>(options_.headroom_tokens, most - std::min(most, written)));
}

// Returns the bytes that a running job will take beyond those it has.
uint64_t Scheduler::growth_of(const RunningJob& one) const {
  uint64_t growth = 0;
  for (const AnswerSequence& answer : one.answers) {
    const uint64_t pending = one.trunk > 0 && !answer.seq ? 0 : answer.pending();
    const uint64_t tokens = pending + headroom_of(one, answer);
    // A sequence without rows may need more than its rows: some strategies allocate the whole
    // context at once.
    growth += answer.seq && answer.committed == 0
                  ? stores_.needed_bytes(*one.kind, static_cast<uint32_t>(tokens), 1)
                  : growth_bytes(stores_, *one.kind, answer.committed, tokens);
    growth += piece_bytes(engine_, *one.kind, answer.length(),
                          std::min<uint64_t>(pending, options_.most_step_tokens));
  }
  return growth;
}

// growth: growth_of() all running jobs; set here if it is not known. The costs of each answer take
// microseconds, so a burst of jobs must not have them computed for every pair of jobs.
bool Scheduler::fits(const RunningJob& running, std::optional<uint64_t>& growth) {
  // A job that would run alone is admitted whatever it needs: its steps ask other instances to
  // evict cached rows.
  if (running_.empty() && !others_run_or_want(running.rank())) return true;
  // Counted first: behind a full queue every step asks, and the costs of 64 answers under a policy
  // that forgets take a millisecond.
  const uint32_t own = std::max(running.sequences(), running.job.beams);
  uint32_t sequences = own;
  for (const auto& one : running_) sequences += std::max(one->sequences(), one->job.beams);
  if (!running_.empty() && sequences > options_.max_sequences) return false;
  if (!growth) {
    growth = 0;
    for (const auto& one : running_) *growth += growth_of(*one);
  }
  const uint32_t tokens = running.longest() + headroom_of(running, running.answers.front());
  const uint64_t needed = stores_.needed_bytes(*running.kind, tokens, own) +
                          piece_bytes(engine_, *running.kind, tokens,
                                      std::min<uint64_t>(tokens, options_.most_step_tokens));
  if (needed + *growth <= available_bytes(running.rank())) return true;
  wanted_ = {.bytes = needed, .rank = running.rank()};
  return false;
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

// Evicts the least recently used cached rows of all stores until there is room for the step's rows.
// Alone, a step evicts all cached rows of its own store before any of other stores and of the draft
// model, however old those are. Makes room for about what the step takes; its store evicts the
// rest.
void Scheduler::make_room(const StoreKind& kind, std::span<const StepWork> work) {
  if (stores_.kinds().size() == 1 && speculation_.draft_idle_seconds() < 0) return;
  const uint64_t block = kind.block_tokens;
  const auto whole = [&](uint64_t tokens) { return (tokens + block - 1) / block * block; };
  uint64_t needed = 0;
  for (const StepWork& one : work) {
    const uint32_t committed = one.running->answers[one.answer].committed;
    const uint64_t rows = whole(committed + uint64_t{one.tokens} + one.drafts.size());
    needed += StoreSet::growth_bytes(kind, committed, rows - whole(committed));
  }
  while (stores_.budget()->free() < needed && shrink_oldest() > 0) continue;
}

// Evicts a block of the least recently used cached rows of all stores. Returns the bytes freed: 0
// if no store but the draft model's has such rows, which make_way() evicts.
uint64_t Scheduler::shrink_oldest() {
  const StoreSet::Oldest oldest = stores_.oldest();
  if (oldest.kind == nullptr) return 0;
  if (speculation_.draft_idle_seconds() > oldest.idle_seconds) return speculation_.shrink(1);
  return oldest.kind->change([](kv::Store& store) { return kv::shrink(store, 1); });
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
