#pragma once
// What a strategy is: a row of the registry's table (kv/registry/registry.h), and what its stores
// are made from.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "kv/contract/kv.h"
#include "kv/strategy/setup.h"

namespace kvick::kv {

struct Traits {
  // Every committed row is attended to, as it was written; if endless, the last max_tokens - 1 of
  // them and every fresh row up to the token itself.
  bool exact = true;
  bool per_query = false;      // view() depends on Query::q
  bool shares_prefix = false;  // open() may return cached > 0
  bool cheap_fork = false;     // fork() of a sequence that was opened copies no row
  bool buckets = false;        // every view of it has a kernels::Segment::bucket
  bool holds_old = false;      // its stores are RowStores, which can hold the rows of Shape::aging
  bool moves_rows = false;     // has the facet RowMover
  bool moves_windows = false;  // of layers with a window as well
  bool forgets = false;        // commits give rows up for good
  // A sequence may grow past the shape's max_tokens, if that is at least most_kept, the committed
  // rows that it keeps (0: it keeps fewer than max_tokens anyway).
  bool endless = false;
  uint32_t most_kept = 0;
  // Keeps a memory of the model's slots and no rows: needs Setup::slots and rows of type f32,
  // answers read() and not view(). All others are for models without one.
  bool slots = false;
  // Keeps rows in a slower tier, and needs TierSetup::spec. A view of one layer ends those of the
  // others.
  bool tiered = false;
  uint32_t max_fresh = 0;  // rows that one slot may add in one step; 0: no limit of its own
};

struct Option {
  std::string_view name, summary, fallback;  // fallback: the default, as text
};

struct Load {
  uint32_t tokens = 0;  // of each sequence, prompt included
  uint32_t sequences = 1;
  uint32_t step = 1;  // tokens that each gains a step; old rows come several at a time
};
// What a load costs, from the strategy's formulas alone.
struct Cost {
  uint64_t fast_bytes = 0, slow_bytes = 0;  // allocated at the end
  uint64_t read_bytes_per_token = 0;        // by the attention of the last token
  uint64_t slow_read_bytes_per_token = 0;   // from the slower tier, for one of each
  uint64_t copied_bytes = 0;                // over the whole load, step by step
};

class RowStore;  // row_store.h

struct Strategy {
  std::string_view name, summary;
  std::span<const Option> options;
  Traits traits;  // of rows that stay as they were written; else see traits_of
  // Takes away the traits that a store with those options has not; null: options change none.
  void (*limit_traits)(const Spec& spec, Traits& traits) = nullptr;
  // Error: an option's value that makes no sense, named. make_store and cost_of refuse unknown
  // options, impossible shapes and loads before they call these.
  // One of the two: a RowStore (Traits::holds_old), or a store of another kind.
  base::Result<std::unique_ptr<RowStore>> (*make_rows)(const Setup& setup,
                                                       const Spec& spec) = nullptr;
  base::Result<std::unique_ptr<Store>> (*make)(const Setup& setup, const Spec& spec) = nullptr;
  base::Result<Cost> (*cost)(const Setup& setup, const Spec& spec, const Load& load);
};

// Store::most_tokens of a strategy's stores.
inline uint32_t most_tokens(const Traits& traits, const Setup& setup) {
  const uint32_t context = setup.shape.max_tokens;
  return traits.endless && traits.most_kept <= context ? setup.limits.most_positions : context;
}

// The registry's rows, the default first; registry/registry.cc.
std::span<const Strategy> strategies();

}  // namespace kvick::kv
