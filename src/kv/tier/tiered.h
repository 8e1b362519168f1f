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
// Bytes of the units that a tier's store moves.
size_t tier_unit_bytes(const Shape& shape, const TierOptions& options);

// Tokens of a unit that suit rows which are chosen so many together: as many, rounded up to what a
// file can move as it is.
uint32_t unit_tokens_for(const Setup& setup, uint32_t rows_together);
// The full units that some of a sequence's rows, chosen so many together, lie in at most,
// in one layer and head: as many, if what is chosen together is whole units.
struct ChosenRows {
  TopRows top_rows;
  uint32_t rows = 0, together = 1;
};
uint32_t chosen_units(const Setup& setup, const ChosenRows& chosen);

}  // namespace kvick::kv
