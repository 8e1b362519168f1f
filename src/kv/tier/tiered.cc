#include "kv/tier/tiered.h"

#include <algorithm>

#include "base/check.h"
#include "kv/tier/tiered_store.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

// Tokens per unit where a policy's rows are loaded: the newest rows then lie side by side, and a
// step needs little fast memory for its own.
constexpr uint32_t kLoadedTokens = 16;

// Returns how many frames fit into the tier's fast memory and the store's limit.
uint64_t most_frames(const Setup& setup, const TierOptions& options, const UnitLayout& layout) {
  const uint64_t bytes = std::min(options.fast_bytes, setup.limits.max_bytes);
  return std::min<uint64_t>(bytes / layout.bytes, UINT32_MAX / layout.tokens - 1);
}

// Returns the frames that a step of one sequence needs, as TieredStore::start counts them: those of
// all units that fresh rows touch, and those of the earlier units that one layer shows. asked: the
// units that a policy may ask for in one layer and head.
uint64_t step_frames(const Setup& setup, const UnitLayout& layout, uint32_t committed,
                     uint32_t fresh, uint64_t asked) {
  const uint32_t full = layout.full(committed);
  const uint64_t touched = layout.touched(uint64_t{committed} + fresh) - full;
  const uint64_t shown = full - layout.full(setup.shape.first_seen(committed));
  return touched * layout.regions + std::min(shown, asked) * layout.heads;
}

// Returns the frames that the last step needs for one sequence. load.step > 1: the step reads a
// piece of a prompt, whose tokens see all rows under any policy.
uint64_t least_frames(const Setup& setup, const UnitLayout& layout, const Load& load) {
  const uint32_t last = load.tokens - 1;
  if (load.step > 1) {
    const uint32_t committed = last / load.step * load.step;
    return step_frames(setup, layout, committed, load.tokens - committed,
                       layout.loads ? 0 : kShowsAll);
  }
  uint64_t asked = setup.tier.asked ? setup.tier.asked(last, 1) : kShowsAll;
  if (layout.loads) asked = 0;
  uint64_t most = step_frames(setup, layout, last, 1, asked);
  // A window that begins late in a unit shows one unit more, so an earlier token may need more.
  if (setup.shape.window != 0)
    for (uint32_t committed = 0; committed < last; ++committed)
      most = std::max(most, step_frames(setup, layout, committed, 1, asked));
  return most;
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Spec&) {
  KVICK_TRY(const TierOptions options, read_tier(*setup.tier.spec));
  KVICK_TRY(std::unique_ptr<Tier> tier, make_tier(options, tier_unit_bytes(setup.shape, options)));
  KVICK_TRY(std::unique_ptr<CheckedStore> store,
            make_tiered_store(setup, options, std::move(tier)));
  return std::unique_ptr<Store>(std::move(store));
}

// Computes the cost of sequences that grow together by one token per step. The reads are those of a
// token before which no unit was filled: a unit that was just filled is still in its frame.
base::Result<Cost> cost(const Setup& setup, const Spec&, const Load& load) {
  KVICK_TRY(const TierOptions options, read_tier(*setup.tier.spec));
  const UnitLayout layout(setup.shape, options.unit_tokens, loads_rows(setup, options));
  const uint64_t most = most_frames(setup, options, layout), token = setup.shape.token_bytes();
  const auto frames = [&](uint64_t units) {
    return saturating_mul(load.sequences, units * layout.regions);
  };
  const auto gone = [&](uint32_t tokens) { return layout.full(setup.shape.first_seen(tokens)); };
  Cost cost;
  const uint64_t touched = layout.touched(load.tokens) - gone(load.tokens);
  const uint64_t full = layout.full(load.tokens) - gone(load.tokens);
  cost.fast_bytes = std::min(frames(touched), most) * layout.bytes;
  cost.slow_bytes = saturating_mul(load.sequences, full * layout.extent_bytes);
  cost.read_bytes_per_token = saturating_mul(setup.shape.seen_rows(load.tokens), token);
  if (load.tokens == 0) return cost;
  cost.least_fast_bytes = saturating_mul(
      load.sequences, saturating_mul(least_frames(setup, layout, load), layout.bytes));
  const uint64_t all = frames(layout.full(load.tokens - 1) - gone(load.tokens - 1));
  const uint64_t layer = all / setup.shape.layers;
  const uint64_t fresh = frames(1), passing = most - std::min(most, fresh);
  if (all <= passing) return cost;
  const uint64_t kept =
      layout.loads ? passing : passing - std::min(passing, saturating_mul(2, layer));
  cost.slow_read_bytes_per_token = saturating_mul(all - kept, layout.bytes);
  return cost;
}

}  // namespace

bool loads_rows(const Setup& setup, const TierOptions& options) {
  if (options.kind == "file") return false;
  if (options.access == TierOptions::Access::kAuto) return static_cast<bool>(setup.tier.asked);
  return options.access == TierOptions::Access::kLoad;
}

uint32_t unit_tokens_for(const Setup& setup, uint32_t rows_together) {
  const base::Result<TierOptions> read = read_tier(*setup.tier.spec);
  if (!read.ok()) return rows_together;  // whoever makes the tier says why
  const TierOptions& options = read.value();
  if (options.kind != "file" && options.access != TierOptions::Access::kCopy) return kLoadedTokens;
  const uint32_t least = options.kind == "file" ? UnitLayout::sector_tokens(setup.shape) : 1;
  return (rows_together + least - 1) / least * least;
}

uint32_t chosen_units(const Setup& setup, const ChosenRows& chosen) {
  const TierOptions options = read_tier(*setup.tier.spec).value();
  const UnitLayout layout(setup.shape, options.unit_tokens, loads_rows(setup, options));
  const auto& [top_rows, rows, together] = chosen;
  const uint32_t full = layout.full(rows);
  if (top_rows.all()) return full;
  // Units touched by the rows chosen together, which begin at a multiple of `together`.
  uint32_t units = layout.touched(together);
  if (together % layout.tokens != 0 && layout.tokens % together != 0) ++units;
  const uint32_t ends = layout.touched(top_rows.first) + full - layout.full(top_rows.last);
  return std::min(full, ends + top_rows.take / together * units);
}

uint64_t chosen_bytes(const Setup& setup, const ChosenRows& chosen) {
  const TierOptions options = read_tier(*setup.tier.spec).value();
  const UnitLayout layout(setup.shape, options.unit_tokens, loads_rows(setup, options));
  if (!layout.loads) return chosen_units(setup, chosen) * layout.bytes;
  const uint32_t stored = layout.full(chosen.rows) * layout.tokens;
  const bool all = chosen.top_rows.all();
  return std::min(stored, all ? chosen.rows : chosen.top_rows.read_rows(chosen.rows)) *
         layout.pair_bytes;
}

size_t tier_unit_bytes(const Shape& shape, const TierOptions& options) {
  return UnitLayout(shape, options.unit_tokens, false).bytes;
}

base::Result<std::unique_ptr<CheckedStore>> make_tiered_store(const Setup& setup,
                                                              const TierOptions& options,
                                                              std::unique_ptr<Tier> tier) {
  const bool loads = loads_rows(setup, options) && tier->memory() != nullptr;
  const UnitLayout layout(setup.shape, options.unit_tokens, loads);
  const uint64_t most = most_frames(setup, options, layout);
  const uint64_t token = uint64_t{layout.regions} * layout.bytes;
  if (most < layout.regions)
    return base::fail(
        "{}: fast={} bytes of {} allowed hold less than one unit of {} tokens in all layers, which "
        "takes {} bytes: raise fast=",
        options.kind, options.fast_bytes, setup.limits.max_bytes, layout.tokens, token);
  KVICK_TRY(Reservation memory, Reservation::make(most * layout.bytes, Pages::kSystem));
  return std::unique_ptr<CheckedStore>(std::make_unique<TieredStore>(
      setup, layout,
      std::make_unique<Frames>(std::move(tier), std::move(memory), layout.bytes,
                               static_cast<uint32_t>(most), options.timeout_s)));
}

Strategy tiered_strategy() {
  return {.name = "tiered",
          .summary = "all rows in a slower tier, what is read of them in frames (--kv-tier)",
          .options = {},
          .traits = {.tiered = true},
          .make = make,
          .cost = cost};
}

}  // namespace kvick::kv
