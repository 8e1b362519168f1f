// Scheduler: its metrics, the state of its cache, the counts of its steps.

#include <algorithm>
#include <map>

#include "engine/serving/scheduler.h"
#include "kv/registry/policies.h"

namespace kvick::engine {
namespace {

double queue_seconds(const RunningJob& running, double now) {
  return running.outcome.times.started.value_or(now) - running.arrived;
}

// Returns the tokens of a running job that its next steps read: of its prompt, or of an answer that
// was preempted.
uint64_t tokens_to_read(const RunningJob& running) {
  if (running.answers.empty()) return 0;
  const uint32_t pending = running.answers.front().pending();
  return pending > 1 ? pending : 0;
}

}  // namespace

uint32_t Scheduler::waiting_jobs() const noexcept {
  // Not RunningJob::admitted: a job that was preempted while it waited for rows has left the queue.
  return static_cast<uint32_t>(
      std::count_if(waiting_.begin(), waiting_.end(),
                    [](const auto& running) { return !running->outcome.times.started; }));
}

// Returns the tokens of running jobs that wait to be read: of prompts, and of answers that were
// preempted. Jobs in the queue do not count: they wait for sequences to end, and longer steps would
// not admit them sooner. When they counted, every step of a server with a full queue took 0.25 s.
uint64_t Scheduler::waiting_tokens() const {
  uint64_t tokens = 0;
  for (const auto& running : running_) tokens += tokens_to_read(*running);
  return tokens;
}

// Returns the tokens of running jobs that steps will read before the prompt of this waiting job.
uint64_t Scheduler::tokens_ahead_of(const RunningJob& running) const {
  uint64_t tokens = 0;
  for (const auto& other : running_)
    if (other->loading == nullptr && other->rank().ahead_of(running.rank()))
      tokens += tokens_to_read(*other);
  return tokens;
}

TierCounts Scheduler::file_counts() const {
  return options_.files != nullptr ? options_.files->counts() : TierCounts{};
}

TierCounts Scheduler::store_counts() const {
  return options_.store != nullptr ? options_.store->counts() : TierCounts{};
}

Metrics Scheduler::metrics() const {
  Metrics all = counts_;
  all.waiting = waiting_jobs();
  all.preempted = static_cast<uint32_t>(waiting_.size()) - all.waiting;
  all.running = static_cast<uint32_t>(running_.size());
  for (const auto* jobs : {&running_, &waiting_})
    for (const auto& running : *jobs)
      for (const AnswerSequence& answer : running->answers) all.job_tokens += answer.tokens.size();
  all.kv_limit_bytes = stores_.max_bytes();
  all.kv = stores_.usage();
  all.token_bytes = stores_.standard().store->info().token_bytes();
  all.block_tokens = stores_.standard().block_tokens;
  all.reuse_age = stores_.reuse_ages();
  all.draft_bytes = speculation_.draft_usage().allocated_bytes;
  all.files = file_counts();
  all.store = store_counts();
  all.experts = engine_.model().expert_stats();
  for (const StoreKind& kind : stores_.kinds()) {
    if (reads_all(kind.options) || kv::forgets(kind.options.select)) continue;
    const kv::Usage usage = kind.store->usage();
    Metrics::Checks& checks = all.checks[kind.options.select.name];
    checks.count += usage.checks;
    checks.lost_mass += usage.lost_mass;
  }
  for (const auto& [policy, totals] : stores_.closed()) {
    if (policy.empty()) continue;
    Metrics::Checks& checks = all.checks[policy];
    checks.count += totals.checks;
    checks.lost_mass += totals.lost_mass;
  }
  return all;
}

void Scheduler::count_step(std::span<const StepWork> work, double began) {
  const double now = options_.clock(), seconds = now - began;
  uint32_t answers = 0, prompts = 0, drafts = 0, came = 0;
  StepShape shape;
  PlainStep plain;  // the step without draft tokens of speculators with `gain`
  for (const StepWork& one : work) {
    const AnswerSequence& answer = one.running->answers[one.answer];
    if (answer.committed < one.running->outcome.prompt_tokens)
      one.running->outcome.times.read(began, now, one.tokens);
    (one.tokens == 1 && one.logits ? answers : prompts) += one.tokens;
    drafts += one.drafts.size();
    shape.add(one.tokens + one.drafts.size(), answer.committed);
    const bool bets = one.drafts.size() > 0 && answer.speculator->options().gain;
    const auto of_it = static_cast<uint32_t>(std::max<size_t>(1, one.kept.size()));
    came += of_it;
    plain.tokens += bets ? 1 : of_it;
    plain.shape.add(bets ? 1 : one.tokens + one.drafts.size(), answer.committed);
  }
  pace_.observe(answers + drafts, prompts, seconds);
  if (prompts == 0) speculation_.observe(shape, plain, came, seconds);
  ++counts_.steps;
  counts_.step_tokens += answers + prompts;
}

CacheState Scheduler::state() const {
  const double now = options_.clock();
  CacheState state = {.limit_bytes = stores_.max_bytes(), .stores = {}, .sequences = {}};
  size_t at = 0;
  for (const StoreKind& kind : stores_.kinds()) {
    std::map<kv::SeqId, uint64_t> job_of;
    for (const auto* jobs : {&running_, &waiting_})
      for (const auto& running : *jobs) {
        if (running->kind != &kind) continue;
        for (const AnswerSequence& answer : running->answers) {
          if (answer.seq) job_of[*answer.seq] = static_cast<uint64_t>(running->id);
          state.sequences.push_back({.job = static_cast<uint64_t>(running->id),
                                     .choice = answer.choice,
                                     .state = running->state,
                                     .store = at,
                                     .tokens = answer.committed,
                                     .prompt_tokens = running->outcome.prompt_tokens,
                                     .cached_tokens = running->outcome.cached_tokens,
                                     .bytes = kind.store->info().used_bytes(answer.committed),
                                     .answer_tokens = running->outcome.generated_tokens,
                                     .queue_seconds = queue_seconds(*running, now)});
        }
      }
    StoreState store = {.strategy = kind.strategy,
                        .type = kind.type,
                        .tier = kind.tier,
                        .select = kind.select,
                        .usage = kind.store->usage(),
                        .pieces = {}};
    // A broken store is not inspected: a change has failed half-way, and the store will be
    // replaced.
    const std::vector<kv::MapEntry> pieces =
        kind.broken ? std::vector<kv::MapEntry>() : kv::map_of(*kind.store);
    for (const kv::MapEntry& piece : pieces)
      store.pieces.push_back({.bytes = piece.bytes,
                              .used_tokens = piece.used_tokens,
                              .tokens = piece.tokens,
                              .users = piece.users,
                              .job = piece.users > 0 ? job_of[piece.owner] : 0});
    state.stores.push_back(std::move(store));
    ++at;
  }
  return state;
}

// Plans the text of an encoder, which one step reads whole. A step takes a first text of any
// length, and further ones while they fit.
void Scheduler::plan_text(RunningJob& running, uint32_t& left, std::vector<StepWork>& work) const {
  const uint32_t tokens = running.answers.front().pending();
  if (tokens == 0 || (tokens > left && !work.empty())) return;
  left -= std::min(left, tokens);
  work.push_back({&running, 0, tokens, false});
}

}  // namespace kvick::engine
