// PagedAttention: rows in blocks of a fixed number of tokens, with a block table per sequence. A
// block is allocated when a token needs it, so a sequence wastes less than one block. Forks and
// sequences with a common prefix share blocks by reference and copy them on write.

#include <cstring>

#include "kv/rows/fresh_rows.h"
#include "kv/stores/paged_store.h"
#include "kv/strategy/options.h"
#include "kv/values/saturating.h"

namespace kvick::kv {

std::byte* PagedStep::fresh_row(uint32_t slot, uint32_t layer, uint32_t head, bool is_v,
                                uint32_t i) const {
  const PagedSequence& sequence = this->sequence(slot);
  const BlockPool& pool = store_.pool_;
  const uint32_t at = sequence.length + i;
  return pool.row(sequence.blocks[at / pool.rows()], layer, head, is_v, at % pool.rows());
}

void PagedStep::write_fresh(const LayerInput& input) {
  write_fresh_rows(store_.setup(), step_slots(), input,
                   [&](uint32_t slot, uint32_t head, bool is_v, uint32_t i) {
                     return fresh_row(slot, input.layer, head, is_v, i);
                   });
}

// Gives back the fresh blocks of a dropped step.
PagedStep::~PagedStep() {
  if (ended_) return;
  for (const StepSlot& step_slot : step_slots())
    store_.drop_fresh(PagedStore::mine(*step_slot.sequence));
}

void PagedStep::keep_all(const Kept& kept) {
  ended_ = true;  // from now on the sequences may be closed before the step is destroyed
  RowStep::keep_all(kept);
}

void PagedStep::keep_rows(uint32_t slot, std::span<const uint32_t> kept) {
  const StepSlot& step_slot = step_slots()[slot];
  PagedSequence& sequence = this->sequence(slot);
  const Shape& shape = store_.shape();
  // In ascending order no row is overwritten before it has moved.
  for (uint32_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == i) continue;
    for (uint32_t layer = 0; layer < shape.layers; ++layer)
      for (uint32_t head = 0; head < shape.kv_heads; ++head)
        for (const bool is_v : {false, true})
          if (const size_t bytes = shape.row_bytes(is_v); bytes > 0)
            std::memcpy(fresh_row(slot, layer, head, is_v, i),
                        fresh_row(slot, layer, head, is_v, kept[i]), bytes);
    store_.copied_bytes_ += shape.token_bytes();
  }
  sequence.known = sequence.known && (kept.empty() || !step_slot.tokens.empty());
  if (sequence.known)
    for (const uint32_t i : kept) sequence.tokens.push_back(step_slot.tokens[i]);
  sequence.length += static_cast<uint32_t>(kept.size());
  store_.settle(sequence);
}

namespace {

constexpr Option kOptions[] = {
    {.name = "block", .summary = "tokens of a block", .fallback = "32"},
    {.name = "prefix",
     .summary = "blocks are kept for prompts that begin with the same tokens",
     .fallback = "on"},
    {.name = "evict",
     .summary = "which kept block is evicted when room is needed: lru, lfu (the least often used), "
                "or priority (of the request with the lowest priority, then lru)",
     .fallback = "lru"},
    {.name = "hugepages",
     .summary = "the blocks lie in pages of 2 MiB: on, off, or auto (where the system makes them)",
     .fallback = "auto"}};

constexpr uint32_t kMostBlockRows = 4096;
// In the order of the option's choices.
constexpr Eviction kEvictions[] = {Eviction::kLru, Eviction::kLfu, Eviction::kPriority};

base::Result<PagedOptions> options_of(const Setup& setup, const Spec& spec) {
  KVICK_TRY(const uint64_t rows, read_number(spec, kOptions[0], 1, kMostBlockRows));
  KVICK_TRY(const bool prefix, read_switch(spec, kOptions[1]));
  if (prefix && !setup.sharing.prefixes && spec.options.contains("prefix"))
    return base::fail(
        "{}: prefix=on does not work here: rows of types that change with age, or of policies that "
        "keep data beside them, serve one sequence only; leave it out",
        spec.name);
  KVICK_TRY(const size_t eviction, read_choice(spec, kOptions[2], {"lru", "lfu", "priority"}));
  KVICK_TRY(const size_t huge, read_choice(spec, kOptions[3], {"auto", "on", "off"}));
  return PagedOptions{
      .block_rows = static_cast<uint32_t>(rows),
      .prefix = prefix && setup.sharing.prefixes,
      .eviction = kEvictions[eviction],
      .pages = huge == 1 || (huge == 0 && huge_pages_work().ok()) ? Pages::kHuge : Pages::kSystem};
}

base::Result<std::unique_ptr<RowStore>> make(const Setup& setup, const Spec& spec) {
  KVICK_TRY(const PagedOptions options, options_of(setup, spec));
  if (options.pages == Pages::kHuge)
    if (auto works = huge_pages_work(); !works.ok())
      return base::fail("{}: hugepages=on: {}", spec.name, works.error().message);
  KVICK_TRY(BlockPool pool, BlockPool::make(setup, options.block_rows, options.pages));
  return std::unique_ptr<RowStore>(std::make_unique<PagedStore>(setup, options, std::move(pool)));
}

void limit_traits(const Spec& spec, Traits& traits) {
  const auto prefix = read_switch(spec, kOptions[1]);
  if (prefix.ok() && !*prefix) traits.shares_prefix = false;
}

base::Result<Cost> cost(const Setup& setup, const Spec& spec, const Load& load) {
  KVICK_TRY(const PagedOptions options, options_of(setup, spec));
  const uint64_t token = setup.shape.token_bytes(), rows = options.block_rows;
  const uint64_t gone = setup.shape.first_seen(load.tokens) / rows * rows;
  const uint64_t held = (load.tokens + rows - 1) / rows * rows - gone;
  return Cost{.fast_bytes = saturating_mul(load.sequences, saturating_mul(held, token)),
              .slow_bytes = 0,
              .read_bytes_per_token = saturating_mul(setup.shape.seen_rows(load.tokens), token),
              .copied_bytes = 0};
}

}  // namespace

Strategy paged_strategy() {
  return {.name = "paged",
          .summary =
              "blocks of tokens and a table of them, shared by prompts that begin alike "
              "(PagedAttention)",
          .options = kOptions,
          .traits = {.shares_prefix = true,
                     .cheap_fork = true,
                     .holds_old = true,
                     .moves_rows = true,
                     .moves_windows = true},
          .limit_traits = limit_traits,
          .make_rows = make,
          .cost = cost};
}

}  // namespace kvick::kv
