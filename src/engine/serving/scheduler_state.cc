// What a scheduler says of itself.

#include <algorithm>
#include <map>

#include "engine/serving/scheduler.h"
#include "kv/registry/policies.h"

namespace kvick::engine {

uint32_t Scheduler::waiting_jobs() const noexcept {
  return static_cast<uint32_t>(std::count_if(
      waiting_.begin(), waiting_.end(), [](const auto& running) { return !running->admitted; }));
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
  all.block_tokens = stores_.standard().block_tokens();
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
  return all;
}

CacheState Scheduler::state() const {
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
                                     .bytes = kind.store->info().used_bytes(answer.committed)});
        }
      }
    StoreState store = {.strategy = kind.strategy,
                        .type = kind.type,
                        .tier = kind.tier,
                        .select = kind.select,
                        .usage = kind.store->usage(),
                        .pieces = {}};
    // One that a failed change has left in the middle is not looked into: it is about to go.
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

}  // namespace kvick::engine
