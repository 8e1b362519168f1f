#include "engine/core/store_set.h"

#include <algorithm>

#include "kv/registry/policies.h"

namespace kvick::engine {
namespace {

// Returns StoreKind::block_tokens. Called once per store: usage() visits every block.
uint32_t block_tokens_of(const kv::Store& store, const kv::Traits& traits) {
  // Blocks of all groups have equal tokens; usage().page_bytes is that of the largest in bytes.
  const uint64_t block = store.usage().page_bytes;
  uint64_t token = 0;
  for (const kv::Shape& shape : store.info().groups) token = std::max(token, shape.token_bytes());
  const bool whole = traits.shares_prefix && token > 0 && block > 0 && block % token == 0;
  return whole ? static_cast<uint32_t>(block / token) : 1;
}

}  // namespace

base::Result<StoreSet> StoreSet::make(Engine& engine, const KvOptions& standard,
                                      std::shared_ptr<kv::Budget> budget) {
  StoreSet set(engine, std::move(budget));
  KVICK_TRY_VOID(set.add(standard));
  return set;
}

base::Result<StoreKind*> StoreSet::add(const KvOptions& options) {
  KvOptions all = engine_->resolved(options);
  all.budget = budget_;
  if (!kinds_.empty()) all.watcher = nullptr;  // it watches only the default store
  all.on_reuse = [ages = reuse_ages_](double seconds) { ages->add(seconds); };
  StoreKind kind = {.options = all,
                    .strategy = kv::spec_text(all.spec),
                    .type = kv_type_text(all),
                    .tier = all.tier ? kv::spec_text(*all.tier) : "",
                    .select = kv_select_text(all),
                    .prompt_role = engine_->prompt_role(all)};
  KVICK_TRY(kind.store, engine_->make_store(all));
  kind.most_tokens = kind.store->most_tokens();
  kind.traits = kv::traits_of_groups(*kv::find_strategy(all.spec.name), kind.store->info().groups,
                                     all.spec, all.select);
  kind.block_tokens = block_tokens_of(*kind.store, kind.traits);
  kinds_.push_back(std::move(kind));
  return &kinds_.back();
}

base::Result<StoreKind*> StoreSet::find(const KvOptions& options) {
  const KvOptions all = engine_->resolved(options);
  const std::string strategy = kv::spec_text(all.spec), type = kv_type_text(all);
  const std::string tier = all.tier ? kv::spec_text(*all.tier) : "";
  const std::string select = kv_select_text(all);
  for (StoreKind& kind : kinds_)
    if (kind.strategy == strategy && kind.type == type && kind.tier == tier &&
        kind.select == select && kind.options.max_tokens == all.max_tokens &&
        kind.options.ranges_path == all.ranges_path)
      return &kind;
  if (kinds_.size() >= kMostStores) {
    const auto unused = std::find_if(std::next(kinds_.begin()), kinds_.end(),
                                     [](const StoreKind& kind) { return kind.jobs == 0; });
    if (unused == kinds_.end())
      return base::fail(
          "{} kinds of cache are in use, the most that one server keeps; use one of them, or try "
          "again later",
          kMostStores);
    keep_totals(*unused);
    kinds_.erase(unused);
  }
  return add(options);
}

base::Status<> StoreSet::renew(StoreKind& kind) {
  KVICK_TRY(std::unique_ptr<kv::Store> store, engine_->make_store(kind.options));
  keep_totals(kind);
  kind.store = std::move(store);
  kind.broken = false;
  return base::Done{};
}

// Counters must not fall when a store is closed.
void StoreSet::keep_totals(const StoreKind& kind) {
  const bool chose = !reads_all(kind.options) && !kv::forgets(kind.options.select);
  const kv::Usage all = kind.store->usage();
  closed_[chose ? kind.options.select.name : ""].add({.copied_bytes = all.copied_bytes,
                                                      .evicted_bytes = all.evicted_bytes,
                                                      .slow_read_bytes = all.slow_read_bytes,
                                                      .slow_written_bytes = all.slow_written_bytes,
                                                      .fallbacks = all.fallbacks,
                                                      .read_bytes = all.read_bytes,
                                                      .checks = all.checks,
                                                      .lost_mass = all.lost_mass,
                                                      .resumed = all.resumed});
}

kv::Usage StoreSet::usage() const {
  kv::Usage all;
  for (const auto& [policy, totals] : closed_) all.add(totals);
  for (const StoreKind& kind : kinds_) all.add(kind.store->usage());
  all.page_bytes = kinds_.front().store->usage().page_bytes;
  return all;
}

uint64_t StoreSet::available_bytes() const {
  return budget_->free() + std::min(budget_->used(), usage().cached_bytes);
}

uint64_t StoreSet::needed_bytes(const StoreKind& kind, uint32_t tokens, uint32_t sequences) const {
  const uint32_t most = kind.most_tokens;
  const auto bytes = [&](uint32_t of_tokens, uint32_t of_sequences) {
    const auto cost = engine_->cost(
        kind.options, {.tokens = std::clamp(of_tokens, 1u, most), .sequences = of_sequences});
    return cost.ok() ? cost->fast_bytes : max_bytes();
  };
  if (sequences <= 1 || !kind.traits.cheap_fork) return bytes(tokens, sequences);
  return bytes(tokens, 1) + bytes(1, sequences - 1);
}

uint64_t StoreSet::growth_bytes(const StoreKind& kind, uint32_t committed, uint64_t tokens) {
  uint64_t bytes = 0;
  for (const kv::Shape& shape : kind.store->info().groups) {
    // A full window releases as many rows as it takes.
    const uint64_t held = committed - shape.first_seen(committed);
    const uint64_t most = shape.window == 0 ? UINT64_MAX : std::max<uint64_t>(held, shape.window);
    bytes += std::min(tokens, most - held) * shape.token_bytes();
  }
  return bytes;
}

uint64_t StoreSet::shrink(uint64_t bytes, const StoreKind* but) {
  uint64_t freed = 0;
  for (StoreKind& kind : kinds_)
    if (&kind != but && !kind.broken && freed < bytes)
      freed += kind.change([&](kv::Store& store) { return kv::shrink(store, bytes - freed); });
  return freed;
}

StoreSet::Oldest StoreSet::oldest() {
  Oldest oldest;
  for (StoreKind& kind : kinds_) {
    const kv::Holdings* const holdings = kind.broken ? nullptr : kind.store->facets().holdings;
    const double idle = holdings != nullptr ? holdings->idle_seconds() : -1;
    if (idle > oldest.idle_seconds) oldest = {.kind = &kind, .idle_seconds = idle};
  }
  return oldest;
}

}  // namespace kvick::engine
