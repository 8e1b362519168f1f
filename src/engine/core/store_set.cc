#include "engine/core/store_set.h"

#include <algorithm>

namespace kvick::engine {
base::Result<StoreSet> StoreSet::make(Engine& engine, const KvOptions& standard,
                                      std::shared_ptr<kv::Budget> budget) {
  StoreSet set(engine, std::move(budget));
  KVICK_TRY_VOID(set.add(standard));
  return set;
}

base::Result<Shelf*> StoreSet::add(const KvOptions& options) {
  KvOptions all = engine_->resolved(options);
  all.budget = budget_;
  all.on_reuse = [ages = reuse_ages_](double seconds) { ages->add(seconds); };
  Shelf shelf = {.options = all,
                 .strategy = kv::spec_text(all.spec),
                 .type = kv_type_text(all),
                 .tier = all.tier ? kv::spec_text(*all.tier) : "",
                 .select = kv_select_text(all),
                 .prompt_role = engine_->prompt_role(all)};
  KVICK_TRY(shelf.store, engine_->make_store(all));
  shelf.most_tokens = shelf.store->most_tokens();
  shelf.traits = kv::traits_of(*kv::find_strategy(all.spec.name), shelf.store->info().groups,
                               all.spec, all.select);
  shelves_.push_back(std::move(shelf));
  return &shelves_.back();
}

base::Result<Shelf*> StoreSet::find(const KvOptions& options) {
  const KvOptions all = engine_->resolved(options);
  const std::string strategy = kv::spec_text(all.spec), type = kv_type_text(all);
  const std::string tier = all.tier ? kv::spec_text(*all.tier) : "";
  const std::string select = kv_select_text(all);
  for (Shelf& shelf : shelves_)
    if (shelf.strategy == strategy && shelf.type == type && shelf.tier == tier &&
        shelf.select == select && shelf.options.max_tokens == all.max_tokens &&
        shelf.options.ranges_path == all.ranges_path)
      return &shelf;
  if (shelves_.size() >= kMostStores) {
    const auto unused = std::find_if(std::next(shelves_.begin()), shelves_.end(),
                                     [](const Shelf& shelf) { return shelf.groups == 0; });
    if (unused == shelves_.end())
      return base::fail(
          "{} kinds of cache are in use, which is as many as one service keeps; ask for one of "
          "them, or again later",
          kMostStores);
    shelves_.erase(unused);
  }
  return add(options);
}

base::Status<> StoreSet::renew(Shelf& shelf) {
  KVICK_TRY(std::unique_ptr<kv::Store> store, engine_->make_store(shelf.options));
  shelf.store = std::move(store);
  shelf.broken = false;
  return base::Done{};
}

kv::Usage StoreSet::usage() const {
  kv::Usage all;
  for (const Shelf& shelf : shelves_) all.add(shelf.store->usage());
  all.page_bytes = shelves_.front().store->usage().page_bytes;
  return all;
}

uint64_t StoreSet::available_bytes() const {
  return budget_->free() + std::min(budget_->used(), usage().cached_bytes);
}

uint64_t StoreSet::needed_bytes(const Shelf& shelf, uint32_t tokens, uint32_t sequences) const {
  const uint32_t most = shelf.most_tokens;
  const auto bytes = [&](uint32_t of_tokens, uint32_t of_sequences) {
    const auto cost = engine_->cost(
        shelf.options, {.tokens = std::clamp(of_tokens, 1u, most), .sequences = of_sequences});
    return cost.ok() ? cost->fast_bytes : max_bytes();
  };
  if (sequences <= 1 || !shelf.traits.cheap_fork) return bytes(tokens, sequences);
  return bytes(tokens, 1) + bytes(1, sequences - 1);
}

uint64_t StoreSet::growth_bytes(const Shelf& shelf, uint32_t committed, uint64_t tokens) {
  uint64_t bytes = 0;
  for (const kv::Shape& shape : shelf.store->info().groups) {
    // A window gives as many rows back as it takes, once it is full.
    const uint64_t held = committed - shape.first_seen(committed);
    const uint64_t most = shape.window == 0 ? UINT64_MAX : std::max<uint64_t>(held, shape.window);
    bytes += std::min(tokens, most - held) * shape.token_bytes();
  }
  return bytes;
}

uint64_t StoreSet::shrink(uint64_t bytes, const Shelf* but) {
  uint64_t freed = 0;
  for (Shelf& shelf : shelves_)
    if (&shelf != but && !shelf.broken && freed < bytes)
      freed += shelf.change([&](kv::Store& store) { return kv::shrink(store, bytes - freed); });
  return freed;
}

}  // namespace kvick::engine
