// What a batcher says of itself.

#include <algorithm>
#include <map>

#include "engine/serving/batcher.h"
#include "kv/registry/policies.h"

namespace kvick::engine {

uint32_t Batcher::waiting_jobs() const noexcept {
  return static_cast<uint32_t>(std::count_if(waiting_.begin(), waiting_.end(),
                                             [](const auto& group) { return !group->admitted; }));
}

Metrics Batcher::metrics() const {
  Metrics all = counts_;
  all.waiting = waiting_jobs();
  all.preempted = static_cast<uint32_t>(waiting_.size()) - all.waiting;
  all.running = static_cast<uint32_t>(running_.size());
  for (const auto* groups : {&running_, &waiting_})
    for (const auto& group : *groups)
      for (const Lane& lane : group->lanes) all.job_tokens += lane.tokens.size();
  all.kv_limit_bytes = stores_.max_bytes();
  all.kv = stores_.usage();
  all.reuse_age = stores_.reuse_ages();
  all.draft_bytes = speculation_.draft_usage().allocated_bytes;
  all.files = files_.counts();
  for (const Shelf& shelf : stores_.shelves()) {
    if (reads_all(shelf.options) || kv::forgets(shelf.options.select)) continue;
    const kv::Usage usage = shelf.store->usage();
    Metrics::Checks& checks = all.checks[shelf.options.select.name];
    checks.count += usage.checks;
    checks.lost_mass += usage.lost_mass;
  }
  return all;
}

CacheState Batcher::state() const {
  CacheState state = {.limit_bytes = stores_.max_bytes(), .stores = {}, .sequences = {}};
  size_t at = 0;
  for (const Shelf& shelf : stores_.shelves()) {
    std::map<kv::SeqId, uint64_t> jobs;
    for (const auto* groups : {&running_, &waiting_})
      for (const auto& group : *groups) {
        if (group->shelf != &shelf) continue;
        for (const Lane& lane : group->lanes) {
          if (lane.seq) jobs[*lane.seq] = static_cast<uint64_t>(group->id);
          state.sequences.push_back({.job = static_cast<uint64_t>(group->id),
                                     .choice = lane.choice,
                                     .state = group->state,
                                     .store = at,
                                     .tokens = lane.committed,
                                     .prompt_tokens = group->outcome.prompt_tokens,
                                     .cached_tokens = group->outcome.cached_tokens,
                                     .bytes = shelf.store->info().used_bytes(lane.committed)});
        }
      }
    StoreState store = {.strategy = shelf.strategy,
                        .type = shelf.type,
                        .tier = shelf.tier,
                        .select = shelf.select,
                        .usage = shelf.store->usage(),
                        .pieces = {}};
    // One that a failed change has left in the middle is not looked into: it is about to go.
    const std::vector<kv::Piece> pieces =
        shelf.broken ? std::vector<kv::Piece>() : kv::map_of(*shelf.store);
    for (const kv::Piece& piece : pieces)
      store.pieces.push_back({.bytes = piece.bytes,
                              .used_tokens = piece.used_tokens,
                              .tokens = piece.tokens,
                              .users = piece.users,
                              .job = piece.users > 0 ? jobs[piece.owner] : 0});
    state.stores.push_back(std::move(store));
    ++at;
  }
  return state;
}

}  // namespace kvick::engine
