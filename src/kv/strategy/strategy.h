#pragma once
// A strategy is a row of the registry's table (kv/registry/registry.h). This header defines that
// row.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "kv/contract/kv.h"
#include "kv/strategy/setup.h"

namespace kvick::kv {

struct Traits {
  // Every committed row is attended to, as it was written. If endless: the last max_tokens - 1
  // committed rows and every fresh row up to the token itself.
  bool exact = true;
  bool per_query = false;      // view() depends on Query::q
  bool shares_prefix = false;  // open() may return cached > 0
  bool cheap_fork = false;     // fork() of an open sequence copies no row
  bool buckets = false;        // every view has a kernels::Segment::bucket
  bool holds_old = false;   // its stores are RowStores, which can hold the old rows of Shape::aging
  bool moves_rows = false;  // has the facet RowMover
  bool moves_windows = false;  // also for layers with a window
  bool forgets = false;        // commits drop rows for good
  // A sequence may grow past the shape's max_tokens if max_tokens is at least most_kept. most_kept:
  // committed rows that a sequence keeps; 0: always fewer than max_tokens.
  bool endless = false;
  uint32_t most_kept = 0;
  // Keeps the model's slots instead of rows: needs Setup::slots and type f32; is read through
  // SlotReader::read, not Step::view. All other strategies are for models without slots.
  bool slots = false;
  // Keeps rows in a slower tier; needs TierSetup::spec. A view of one layer invalidates the views
  // of all other layers.
  bool tiered = false;
  uint32_t max_fresh = 0;  // rows that one slot may add in one step; 0: no limit
};

struct Option {
  std::string_view name, summary, fallback;  // fallback: the default value, as text
};

struct Load {
  uint32_t tokens = 0;  // of each sequence, prompt included
  uint32_t sequences = 1;
  uint32_t step = 1;  // tokens that each gains per step; old rows are added several at a time
};
// What a load costs, computed from the strategy's formulas alone.
struct Cost {
  uint64_t fast_bytes = 0, slow_bytes = 0;  // allocated at the end of the load
  uint64_t read_bytes_per_token = 0;        // read by attention for the last token
  uint64_t slow_read_bytes_per_token = 0;   // from the slower tier, for a token of each sequence
  uint64_t copied_bytes = 0;                // over all steps of the load
  // Of a slower tier's fast memory, for the last token's step: with less, the step is refused.
  uint64_t least_fast_bytes = 0;
};

class RowStore;  // row_store.h

struct Strategy {
  std::string_view name, summary;
  std::span<const Option> options;
  Traits traits;  // where rows stay as they were written; otherwise see traits_of
  // Clears the traits that a store with those options lacks; null: no option changes them.
  void (*limit_traits)(const Spec& spec, Traits& traits) = nullptr;
  // Each fails with an error that names the option whose value is invalid. make_store and cost_of
  // refuse unknown options, impossible shapes and impossible loads before they call these.
  // A strategy has one of the two makers: make_rows makes a RowStore (Traits::holds_old), make any
  // other store.
  base::Result<std::unique_ptr<RowStore>> (*make_rows)(const Setup& setup,
                                                       const Spec& spec) = nullptr;
  base::Result<std::unique_ptr<Store>> (*make)(const Setup& setup, const Spec& spec) = nullptr;
  base::Result<Cost> (*cost)(const Setup& setup, const Spec& spec, const Load& load);
};

// Returns Store::most_tokens for a strategy's stores.
inline uint32_t most_tokens(const Traits& traits, const Setup& setup) {
  const uint32_t context = setup.shape.max_tokens;
  return traits.endless && traits.most_kept <= context ? setup.limits.most_positions : context;
}

// Returns the registry's rows, the default first; defined in registry/registry.cc.
std::span<const Strategy> strategies();

}  // namespace kvick::kv
