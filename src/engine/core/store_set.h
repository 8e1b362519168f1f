#pragma once
// The stores of one service: one per kind of cache that requests ask for, under one byte limit.

#include <list>
#include <map>
#include <memory>
#include <string>

#include "engine/core/engine.h"
#include "engine/core/service_state.h"
#include "kv/strategy/budget.h"

namespace kvick::engine {

// One store and what is known of its kind.
struct StoreKind {
  KvOptions options;                         // resolved: nothing is left open
  std::string strategy, type, tier, select;  // as --kv and its like take them
  kv::Traits traits;
  model::Role prompt_role = model::Role::kAnswer;  // Engine::prompt_role
  std::unique_ptr<kv::Store> store;
  uint32_t most_tokens = 0;   // Store::most_tokens
  uint32_t block_tokens = 1;  // tokens of a block that prompts can share; 1: it shares no blocks
  uint32_t jobs = 0;          // jobs that use it
  // A call that changes the store threw. Its sequences are unusable, and StoreSet::renew replaces
  // it.
  bool broken = false;

  // Whether a token's row depends on whether it is a prompt's or an answer's.
  bool tells_roles() const { return prompt_role != model::Role::kAnswer || !reads_all(options); }

  // Makes a call that changes the store.
  template <typename Call>
  decltype(auto) change(const Call& call) {
    try {
      return call(*store);
    } catch (...) {
      broken = true;
      throw;
    }
  }
};

class StoreSet {
 public:
  // Errors: what Engine::make_store refuses.
  static base::Result<StoreSet> make(Engine& engine, const KvOptions& standard,
                                     std::shared_ptr<kv::Budget> budget);

  const StoreKind& standard() const { return kinds_.front(); }
  StoreKind& standard() { return kinds_.front(); }
  // Returns the store for the options, made if there is none yet. With kMostStores stores an unused
  // one is closed for it. Errors: what Engine::make_store refuses; too many kinds in use.
  base::Result<StoreKind*> find(const KvOptions& options);
  // Replaces a broken store by an empty one. No sequence of it may be used any more. Errors: what
  // Engine::make_store refuses; then the store stays broken.
  base::Status<> renew(StoreKind& kind);

  std::list<StoreKind>& kinds() { return kinds_; }
  const std::list<StoreKind>& kinds() const { return kinds_; }
  const std::shared_ptr<kv::Budget>& budget() const { return budget_; }
  uint64_t max_bytes() const { return budget_->bytes(); }
  // Sum over all stores, with the totals of those that were closed or replaced.
  kv::Usage usage() const;
  // These totals, by the policy that chose rows; its key is empty if none did.
  const std::map<std::string, kv::Usage>& closed() const { return closed_; }
  // Seconds since the last use of the cached blocks that prompts found, of all stores.
  const Histogram& reuse_ages() const { return *reuse_ages_; }
  // Bytes that can still be allocated, including cached rows that can be evicted.
  uint64_t available_bytes() const;
  // Bytes that `sequences` sequences of `tokens` tokens will take; as forks of one if forks are
  // cheap.
  uint64_t needed_bytes(const StoreKind& kind, uint32_t tokens, uint32_t sequences) const;
  // Bytes that a sequence of `committed` tokens will take for `tokens` more, beyond those it has.
  static uint64_t growth_bytes(const StoreKind& kind, uint32_t committed, uint64_t tokens);
  // Evicts about `bytes` of cached rows, except in the store `but`; returns the bytes freed.
  uint64_t shrink(uint64_t bytes, const StoreKind* but = nullptr);
  // The store that has the least recently used cached rows, and the seconds since their last use.
  struct Oldest {
    StoreKind* kind = nullptr;  // null: no store has cached rows and knows their age
    double idle_seconds = -1;
  };
  Oldest oldest();

  static constexpr size_t kMostStores = 8;

 private:
  StoreSet(Engine& engine, std::shared_ptr<kv::Budget> budget)
      : engine_(&engine), budget_(std::move(budget)) {}
  base::Result<StoreKind*> add(const KvOptions& options);
  void keep_totals(const StoreKind& kind);

  Engine* engine_;
  std::shared_ptr<kv::Budget> budget_;
  std::shared_ptr<Histogram> reuse_ages_ = std::make_shared<Histogram>();
  std::list<StoreKind> kinds_;  // the standard one first
  std::map<std::string, kv::Usage> closed_;
};

}  // namespace kvick::engine
