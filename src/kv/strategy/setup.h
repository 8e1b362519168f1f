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

// Upper bound on the slower tier's units that one RowFetcher::view_some() touches (one layer and
// head) in a sequence with `committed` and `fresh` rows; kShowsAll: Step::view() is called
// instead.
using UnitsAsked = std::function<uint32_t(uint32_t committed, uint32_t fresh)>;
inline constexpr uint32_t kShowsAll = UINT32_MAX;

// How much memory a store may take, and how long its sequences may get.
struct Limits {
  uint64_t max_bytes = UINT64_MAX;  // the store's own cap on allocated_bytes
  // What the store allocates is charged to it first, beside what other stores do; null: none.
  std::shared_ptr<Budget> budget = {};
  // Positions that the model knows, which is where the sequences of an endless strategy end.
  uint32_t most_positions = UINT32_MAX;
};

// What a store computes with, and on.
struct Compute {
  // float32 to one of the shape's types, n elements: kernels::Table::store_row, or its definition.
  void (*store_row)(kernels::DType type, const float* in, size_t n,
                    std::byte* out) = kernels::from_f32;
  // The same for rows that go together: kernels::Table::store_group, or its definition.
  void (*store_group)(kernels::DType type, const float* in, size_t stride, size_t n,
                      std::byte* const* rows) = kernels::group_from_f32;
  const kernels::Table* kernels = nullptr;  // null: the scalar ones
  base::ThreadPool* pool = nullptr;         // null: the caller's thread alone
  // Measures what growing and spare rows cost, if a strategy asks; empty: it must not.
  std::function<base::Result<GrowthRates>()> growth_rates = {};
};

// Whether and how sequences that begin alike share rows.
struct Sharing {
  // Old rows (Shape::aging) may not be shared: the recent ones that belong to them are elsewhere.
  bool prefixes = true;
  // Told of each block that a prompt finds: seconds since it was used last; empty: nobody.
  std::function<void(double)> on_reuse = {};
  base::Clock clock = base::steady_seconds;  // of these
  // Told which whole blocks are shared, by strategies that share blocks; null: nobody. Layers with
  // a window say nothing.
  std::shared_ptr<PrefixWatcher> watcher = {};
};

// The policy that chooses rows (kv/strategy/policy.h), and what it knows of the model.
struct SelectSetup {
  Spec spec = {};                              // no name: all rows are read
  std::shared_ptr<const Predictor> predictor;  // of maple and loki, null without it
  uint32_t group = 1;                          // query heads that share a KV head
  uint32_t model_dim = 0;                      // of InputReader::inputs
  Rotation rotation = {};
};

// The slower tier (tier/tier.h).
struct TierSetup {
  std::optional<Spec> spec = {};  // as --kv-tier names it; none: rows stay in memory
  UnitsAsked asked = {};          // what a policy asks it for; empty: views show all rows
};

// What every store is made from.
struct Setup {
  Shape shape;
  // What each layer of the model keeps, if they are not all of `shape`: then it says how rows are
  // kept (types, aging, context), and these what.
  std::vector<LayerSpec> layers = {};
  const Slots* slots = nullptr;                     // of a model that keeps slots, not rows
  std::shared_ptr<const StaticRanges> ranges = {};  // of the static element types
  Limits limits = {};
  Compute compute = {};
  Sharing sharing = {};
  SelectSetup select = {};
  TierSetup tier = {};
};

}  // namespace kvick::kv
