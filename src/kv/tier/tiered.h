#pragma once
// Full keys and values in a slower tier (kv/tier/tier.h), and a bounded number of frames in fast
// memory: what a step reads is pinned in frames until its layer is computed, and read ahead of
// need; fresh rows stay in frames until their unit of tokens is full, and are then written in the
// background. docs/adr/0019-slower-tiers.md.

#include "kv/strategy/selection.h"
#include "kv/strategy/strategy.h"
#include "kv/tier/tier.h"

namespace kvick::kv {

class CheckedStore;

// The store that the strategy `tiered` makes, over a tier that the caller has made.
base::Result<std::unique_ptr<CheckedStore>> make_tiered_store(const Setup& setup,
                                                              const TierOptions& options,
                                                              std::unique_ptr<Tier> tier);
// Size in bytes of one unit, what a tiered store moves at a time.
size_t tier_unit_bytes(const Shape& shape, const TierOptions& options);

// Tokens per unit that suit a policy which chooses `rows_together` rows at once: that number; in a
// file rounded up to whole disk sectors.
uint32_t unit_tokens_for(const Setup& setup, uint32_t rows_together);
// Upper bound on the full units that the chosen rows of a sequence touch in one layer and head;
// exact if rows are chosen by whole units.
struct ChosenRows {
  TopRows top_rows;
  uint32_t rows = 0, together = 1;
};
uint32_t chosen_units(const Setup& setup, const ChosenRows& chosen);

}  // namespace kvick::kv
