#pragma once
// Keeps all keys and values in a slower tier (kv/tier/tier.h), and a bounded number of frames in
// fast memory. A layer's rows are read ahead into frames and stay pinned until the layer is
// computed. Fresh rows stay in frames until their unit of tokens is full; then it is written in the
// background. See docs/adr/0019-slower-tiers.md.
//
// Where processors load rows from the tier's own memory (TierOptions::access), no row is brought
// into a frame: a unit stays in the frame that it was written in until that is needed for fresh
// rows, oldest first. See docs/adr/0073-rows-loaded-from-a-tier.md.

#include "kv/strategy/selection.h"
#include "kv/strategy/strategy.h"
#include "kv/tier/tier.h"

namespace kvick::kv {

class CheckedStore;

// Makes the store of the strategy `tiered` over a given tier.
base::Result<std::unique_ptr<CheckedStore>> make_tiered_store(const Setup& setup,
                                                              const TierOptions& options,
                                                              std::unique_ptr<Tier> tier);
// Returns the size in bytes of one unit, which a tiered store moves at a time.
size_t tier_unit_bytes(const Shape& shape, const TierOptions& options);
// Returns whether rows are loaded from where they are in the tier.
bool loads_rows(const Setup& setup, const TierOptions& options);

// Returns the tokens per unit that suit a policy which chooses `rows_together` rows at once: that
// number, for a file rounded up to whole disk sectors; 16 where rows are loaded: any number does.
uint32_t unit_tokens_for(const Setup& setup, uint32_t rows_together);
struct ChosenRows {
  TopRows top_rows;
  uint32_t rows = 0, together = 1;
};
// Returns an upper bound on the bytes that a sequence's chosen rows take in one layer and head of
// the tier: the bytes of their units or, where rows are loaded, their own.
uint64_t chosen_bytes(const Setup& setup, const ChosenRows& chosen);
// Returns an upper bound on the full units that a sequence's chosen rows touch in one layer and
// head; it is exact if rows are chosen by whole units.
uint32_t chosen_units(const Setup& setup, const ChosenRows& chosen);

}  // namespace kvick::kv
