#pragma once
// What a strategy is: a row of the registry's table (kv/registry/registry.h), and what its stores
// are made from.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/table/table.h"
#include "kv/contract/kv.h"
#include "kv/strategy/growth_rates.h"
#include "kv/strategy/model_facts.h"
#include "kv/values/layer_spec.h"

namespace kvick::kv {

// NAME[:key=value[,key=value]...], as given to --kv.
struct Spec {
  std::string name;
  std::map<std::string, std::string> options;
};
base::Result<Spec> parse_spec(std::string_view text);
std::string spec_text(const Spec& spec);  // the inverse

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
  bool forgets = false;        // commits give rows up for good
  bool endless = false;        // a sequence may grow past the shape's max_tokens
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

// The most units of a slower tier that RowFetcher::view_some is asked for rows of in one layer and
// head, of a sequence with so many committed and fresh rows; kShowsAll: Step::view is called
// instead.
using UnitsAsked = std::function<uint32_t(uint32_t committed, uint32_t fresh)>;
inline constexpr uint32_t kShowsAll = UINT32_MAX;

class Budget;         // budget.h
class RowStore;       // row_store.h
struct Predictor;     // predictor.h
struct StaticRanges;  // ranges.h

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
};

// The policy of which rows are read (select/policy.h), and what it knows of the model.
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
  return traits.endless ? setup.limits.most_positions : setup.shape.max_tokens;
}

// The registry's rows, the default first; registry/registry.cc.
std::span<const Strategy> strategies();

}  // namespace kvick::kv
