#pragma once
// Full keys and values in a slower tier (kv/tier.h), and a bounded number of frames in fast memory:
// what a step reads is pinned in frames until its layer is computed, and read ahead of need; fresh
// rows stay in frames until their unit of tokens is full, and are then written in the background.
// docs/adr/0019-slower-tiers.md.

#include "kv/registry.h"
#include "kv/tier.h"

namespace kvick::kv {

// The store that the strategy `tiered` makes, over a tier that the caller has made.
base::Result<std::unique_ptr<Store>> make_tiered_store(const Setup& setup,
                                                       const TierOptions& options,
                                                       std::unique_ptr<Tier> tier);
// Bytes of the units that a tier's store moves.
size_t tier_unit_bytes(const Shape& shape, const TierOptions& options);

}  // namespace kvick::kv
