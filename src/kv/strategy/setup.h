#pragma once
// What a store is made from, grouped by purpose.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/table/table.h"
#include "kv/strategy/growth_rates.h"
#include "kv/strategy/model_facts.h"
#include "kv/strategy/spec.h"
#include "kv/values/layer_spec.h"
#include "kv/values/shape.h"

namespace kvick::kv {

class Budget;         // budget.h
struct Predictor;     // predictor.h
struct StaticRanges;  // ranges.h
class PrefixWatcher;  // values/prefix_watcher.h

// Returns an upper bound on the units of the slower tier that one RowFetcher::view_some() call (one
// layer and head) touches in a sequence with `committed` and `fresh` rows. kShowsAll: Step::view()
// is called instead.
using UnitsAsked = std::function<uint32_t(uint32_t committed, uint32_t fresh)>;
inline constexpr uint32_t kShowsAll = UINT32_MAX;

// Limits on a store's memory and on the length of its sequences.
struct Limits {
  uint64_t max_bytes = UINT64_MAX;  // the store's own cap on allocated_bytes
  // Budget shared with other stores: the store charges memory to it before allocating; null: none.
  std::shared_ptr<Budget> budget = {};
  // Positions that the model supports; sequences of an endless strategy end there.
  uint32_t most_positions = UINT32_MAX;
};

// The functions and threads that a store computes with.
struct Compute {
  // Converts n floats to one of the shape's types: kernels::Table::store_row, or its definition.
  void (*store_row)(kernels::DType type, const float* in, size_t n,
                    std::byte* out) = kernels::from_f32;
  // The same for rows quantised as a group: kernels::Table::store_group, or its definition.
  void (*store_group)(kernels::DType type, const float* in, size_t stride, size_t n,
                      std::byte* const* rows) = kernels::group_from_f32;
  const kernels::Table* kernels = nullptr;  // null: the scalar kernels
  base::ThreadPool* pool = nullptr;         // null: the caller's thread alone
  // Measures the costs of growth and spare rows, if a strategy needs them; empty: not available.
  std::function<base::Result<GrowthRates>()> growth_rates = {};
};

// Whether and how sequences with a common prefix share rows.
struct Sharing {
  // False for a store of old rows (Shape::aging): their sequences' recent rows are in another
  // store.
  bool prefixes = true;
  // Called for each block that a prompt reuses, with the seconds since its last use; empty: not
  // called.
  std::function<void(double)> on_reuse = {};
  base::Clock clock = base::steady_seconds;  // for these seconds
  // Told which whole blocks are shared, by strategies that share blocks; null: nobody. Layers with
  // a window report nothing.
  std::shared_ptr<PrefixWatcher> watcher = {};
};

// The policy that chooses rows (kv/strategy/policy.h), and the facts of the model that it needs.
struct SelectSetup {
  Spec spec = {};                              // without a name: all rows are read
  std::shared_ptr<const Predictor> predictor;  // for maple and loki; null: none
  uint32_t group = 1;                          // query heads that share a KV head
  uint32_t model_dim = 0;                      // elements of one input of InputReader::inputs
  Rotation rotation = {};
};

// The slower tier (tier/tier.h).
struct TierSetup {
  std::optional<Spec> spec = {};  // as given by --kv-tier; none: rows stay in memory
  UnitsAsked asked = {};          // what the policy reads from it; empty: views show all rows
};

// What every store is made from.
struct Setup {
  Shape shape;
  // What each layer of the model keeps, if not every layer keeps rows of `shape`. In that case
  // `shape` says how rows are kept (types, aging, context), and these say what each layer keeps.
  std::vector<LayerSpec> layers = {};
  const Slots* slots = nullptr;                     // for a model that keeps slots instead of rows
  std::shared_ptr<const StaticRanges> ranges = {};  // for the static element types
  Limits limits = {};
  Compute compute = {};
  Sharing sharing = {};
  SelectSetup select = {};
  TierSetup tier = {};
};

}  // namespace kvick::kv
