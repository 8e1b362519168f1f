#include "kv/registry/registry.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kv/aging/aged.h"
#include "kv/registry/grouped.h"
#include "kv/registry/policies.h"
#include "kv/rows/row_store.h"
#include "kv/strategy/options.h"
#include "kv/strategy/ranges.h"
#include "kv/tier/tier.h"

namespace kvick::kv {

Strategy virtual_strategy();    // virtual.cc
Strategy bmc_strategy();        // bmc.cc
Strategy iterative_strategy();  // iterative.cc
Strategy upfront_strategy();    // upfront.cc
Strategy paged_strategy();      // paged.cc
Strategy sliding_strategy();    // sliding.cc
Strategy bounded_strategy();    // bounded.cc
Strategy tiered_strategy();     // tiered.cc

namespace {

constexpr size_t kMostStrategies = 64;

// Rows never move: callers keep pointers to them.
std::vector<Strategy>& table() {
  static std::vector<Strategy> rows = [] {
    std::vector<Strategy> all;
    all.reserve(kMostStrategies);
    all = {virtual_strategy(), bmc_strategy(),     iterative_strategy(), upfront_strategy(),
           paged_strategy(),   sliding_strategy(), bounded_strategy(),   tiered_strategy()};
    return all;
  }();
  return rows;
}

// A strategy must have exactly one function that makes stores.
base::Status<> check_row(const Strategy& row) {
  KVICK_TRY_VOID(check_name("strategy", row.name));
  if (find_strategy(row.name) != nullptr)
    return base::fail("there is a strategy named {} already", row.name);
  if ((row.make == nullptr) == (row.make_rows == nullptr) || row.cost == nullptr)
    return base::fail("strategy {} needs cost, and either make or make_rows", row.name);
  return base::Done{};
}

// Limit on the bytes of one sequence of max_tokens: 256 TiB, more than processors can address.
constexpr uint64_t kMostBytes = uint64_t{1} << 48;
// Bounds that keep every size below 2^64, page rounding included.
constexpr uint64_t kMostRegions = uint64_t{1} << 24;
constexpr uint32_t kMostHeadDim = uint32_t{1} << 20;

using kernels::DType;

template <typename Row>
std::vector<std::string_view> names_of(std::span<const Row> rows) {
  std::vector<std::string_view> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

base::Result<const Strategy*> checked_strategy(const Spec& spec) {
  const Strategy* strategy = find_strategy(spec.name);
  if (strategy == nullptr) {
    const auto known = names_of(strategies());
    return base::fail("{} is not a KV strategy{}; there are {}", quote(spec.name),
                      hint(spec.name, known), fmt::join(known, ", "));
  }
  KVICK_TRY_VOID(check_options(spec, strategy->options));
  return strategy;
}

// A strategy that keeps slots is for models with slots; all others are for models without.
base::Status<> check_slots(const Strategy& strategy, bool model_has_one) {
  if (strategy.traits.slots == model_has_one) return base::Done{};
  std::vector<std::string_view> fit;
  for (const Strategy& other : strategies())
    if (other.traits.slots == model_has_one && !other.traits.tiered) fit.push_back(other.name);
  if (model_has_one)
    return base::fail(
        "the model was trained with a memory of slots, which {} does not keep: use {}",
        strategy.name, fmt::join(fit, ", "));
  return base::fail(
      "{} needs a model that was trained with a memory of slots (architecture bct), and this one "
      "was not: use one of {}",
      strategy.name, fmt::join(fit, ", "));
}

// A slower tier and the strategy that keeps rows there need each other.
base::Status<> check_tier(const Strategy& strategy, const Setup& setup) {
  if (strategy.traits.tiered == setup.tier.spec.has_value()) {
    if (setup.tier.spec) KVICK_TRY_VOID(read_tier(*setup.tier.spec));
    return base::Done{};
  }
  if (strategy.traits.tiered)
    return base::fail("{} keeps rows in a slower tier: name one, as in --kv-tier file:dir=PATH",
                      strategy.name);
  for (const Strategy& other : strategies())
    if (other.traits.tiered)
      return base::fail("{} keeps all rows in memory: with --kv-tier leave --kv out, or say {}",
                        strategy.name, other.name);
  return base::fail("no strategy keeps rows in a slower tier");
}

bool is_row_type(DType type) {
  return kernels::dtype_info(type).block == 1 || type == DType::kQ8 || type == DType::kQ4 ||
         type == DType::kQ3 || type == DType::kQ2;
}

base::Status<> check_groups(const Shape& shape, DType type, bool is_v) {
  const kernels::DTypeInfo& info = kernels::dtype_info(type);
  if (shape.dim(is_v) % info.block == 0) return base::Done{};
  return base::fail(
      "keys and values of {} elements a head cannot be kept as {}, which takes groups of {}: use "
      "f16",
      shape.dim(is_v), info.name, info.block);
}

base::Status<> check_aging(const Shape& shape) {
  const Aging& aging = *shape.aging;
  for (const DType type : {shape.k_type, shape.v_type, aging.k_type, aging.v_type})
    if (kernels::is_static(type))
      return base::fail("rows of type {} keep it: they cannot change with age",
                        kernels::dtype_info(type).name);
  if (!is_row_type(aging.k_type) && aging.k_type != DType::kKivi4K)
    return base::fail("old keys are kept as f32, f16, bf16, q8, q4, q3, q2 or kivi4_k, not as {}",
                      kernels::dtype_info(aging.k_type).name);
  if (!is_row_type(aging.v_type) && aging.v_type != DType::kKivi4V)
    return base::fail("old values are kept as f32, f16, bf16, q8, q4, q3, q2 or kivi4_v, not as {}",
                      kernels::dtype_info(aging.v_type).name);
  KVICK_TRY_VOID(check_groups(shape, aging.k_type, false));
  KVICK_TRY_VOID(check_groups(shape, aging.v_type, true));
  if (shape.latent)
    return base::fail(
        "latent rows keep their type: they cannot change with age, as in mixed and kivi4");
  if (aging.window % kAgingRows != 0 || aging.window > kMostAgingWindow)
    return base::fail("a window of {} rows: it must be a multiple of {}, at most {}", aging.window,
                      kAgingRows, kMostAgingWindow);
  return base::Done{};
}

base::Status<> check_shape(const Shape& shape) {
  if (shape.layers == 0 || shape.kv_heads == 0 || shape.head_dim == 0 || shape.max_tokens == 0)
    return base::fail(
        "a cache of {} layers, {} KV heads, {} values a head and {} tokens is empty: each must be "
        "at least 1",
        shape.layers, shape.kv_heads, shape.head_dim, shape.max_tokens);
  for (const DType type : {shape.k_type, shape.v_type}) {
    if (!is_row_type(type))
      return base::fail(
          "keys and values are kept as f32, f16, bf16, q8, q4, q3, q2, static8 or static16, not as "
          "{}",
          kernels::dtype_info(type).name);
  }
  KVICK_TRY_VOID(check_groups(shape, shape.k_type, false));
  KVICK_TRY_VOID(check_groups(shape, shape.v_type, true));
  if (shape.latent && (shape.k_type != shape.v_type || shape.dim(true) > shape.head_dim))
    return base::fail("latent rows have one type, and values of at most the {} elements of a row",
                      shape.head_dim);
  if (shape.chunked && shape.window == 0) return base::fail("chunks of no tokens");
  if (shape.aging) KVICK_TRY_VOID(check_aging(shape));
  if (uint64_t{shape.layers} * shape.kv_heads > kMostRegions ||
      std::max(shape.head_dim, shape.v_dim) > kMostHeadDim)
    return base::fail("{} layers of {} KV heads of {} values: no model has so many", shape.layers,
                      shape.kv_heads, shape.head_dim);
  uint64_t bytes = shape.row_bytes(false) + shape.row_bytes(true);
  for (const uint32_t factor : {shape.layers, shape.kv_heads, shape.max_tokens})
    if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > kMostBytes)
      return base::fail(
          "{} layers x {} KV heads x {} values x {} tokens is more than any memory: give a smaller "
          "context",
          shape.layers, shape.kv_heads, shape.head_dim, shape.max_tokens);
  return base::Done{};
}

base::Status<> check_ranges(const Setup& setup) {
  const Shape& shape = setup.shape;
  for (const bool is_v : {false, true}) {
    const kernels::DType type = is_v ? shape.v_type : shape.k_type;
    if (!kernels::is_static(type)) continue;
    if (setup.ranges == nullptr)
      return base::fail("rows of type {} need the ranges of a calibration",
                        kernels::dtype_info(type).name);
    const std::vector<float>& ranges = is_v ? setup.ranges->v : setup.ranges->k;
    if (ranges.size() != size_t{shape.layers} * shape.kv_heads)
      return base::fail("ranges of {} heads, but there are {} layers of {} KV heads", ranges.size(),
                        shape.layers, shape.kv_heads);
    for (const float range : ranges)
      if (!std::isfinite(range) || range < 0)
        return base::fail("a range is {}, but must be finite and not negative", range);
  }
  return base::Done{};
}

}  // namespace

std::span<const Strategy> strategies() { return table(); }

base::Status<> add_strategies(std::span<const Strategy> rows) {
  if (rows.size() > kMostStrategies - table().size())
    return base::fail("{} strategies more than the {} that there are: at most {} in all",
                      rows.size(), table().size(), kMostStrategies);
  const size_t before = table().size();
  for (const Strategy& row : rows) {
    if (auto fits = check_row(row); !fits.ok()) {
      table().erase(table().begin() + static_cast<std::ptrdiff_t>(before), table().end());
      return fits;
    }
    table().push_back(row);
  }
  return base::Done{};
}

const Strategy* find_strategy(std::string_view name) {
  for (const Strategy& strategy : strategies())
    if (strategy.name == name) return &strategy;
  return nullptr;
}

const Strategy& default_strategy(bool memory, bool tier) {
  const auto all = strategies();
  return *std::find_if(all.begin(), all.end(), [&](const Strategy& one) {
    return one.traits.slots == memory && (memory || one.traits.tiered == tier);
  });
}

Traits traits_of(const Strategy& strategy, const Shape& shape, const Spec& spec,
                 const Spec& select) {
  Traits traits = strategy.traits;
  if (strategy.limit_traits != nullptr) strategy.limit_traits(spec, traits);
  if (shape.aging)
    traits.exact = traits.shares_prefix = traits.cheap_fork = traits.buckets = traits.moves_rows =
        false;
  // Rows that leave a window are given back. States move between checkpoints, which are kept unless
  // the strategy's options switch prefix sharing off.
  if (shape.state_bytes != 0)
    traits.moves_rows = traits.shares_prefix || !strategy.traits.shares_prefix;
  else if (shape.window > 0)
    traits.moves_rows = traits.moves_rows && traits.moves_windows;
  else if (shape.head_dim == 0)
    traits.moves_rows = false;
  if (const Policy* policy = find_policy(select.name)) {
    policy->change_traits(traits);
    if (policy->limit_traits != nullptr) policy->limit_traits(select, traits);
  }
  return traits;
}

bool follows_policy(const Shape& shape) {
  return shape.window == 0 && !shape.latent && shape.head_dim > 0;
}

Traits traits_of_groups(const Strategy& strategy, std::span<const Shape> groups, const Spec& spec,
                        const Spec& select) {
  std::optional<Traits> all;
  bool rows = false, states = false;
  for (const Shape& shape : groups) {
    (shape.state_bytes != 0 ? states : rows) = true;
    const Traits one = traits_of(strategy, shape, spec, follows_policy(shape) ? select : Spec{});
    if (!all) {
      all = one;
      continue;
    }
    for (const auto each :
         {&Traits::exact, &Traits::shares_prefix, &Traits::cheap_fork, &Traits::buckets,
          &Traits::holds_old, &Traits::moves_rows, &Traits::endless})
      *all.*each = *all.*each && one.*each;
    for (const auto some : {&Traits::per_query, &Traits::forgets, &Traits::slots, &Traits::tiered})
      *all.*some = *all.*some || one.*some;
    if (one.max_fresh != 0)
      all->max_fresh =
          all->max_fresh == 0 ? one.max_fresh : std::min(all->max_fresh, one.max_fresh);
  }
  // Without shared rows no checkpoints of states are kept.
  if (rows && states) all->moves_rows = all->moves_rows && all->shares_prefix;
  return all.value_or(Traits{});
}

uint32_t most_tokens_of(const Strategy& strategy, const Spec& spec, const Setup& setup) {
  const std::vector<Shape> shapes =
      setup.layers.empty() ? std::vector{setup.shape} : grouped_shapes(setup);
  uint32_t most = UINT32_MAX;
  for (const Shape& shape : shapes) {
    const Spec select = setup.layers.empty() || follows_policy(shape) ? setup.select.spec : Spec{};
    most = std::min(most, most_tokens(traits_of(strategy, shape, spec, select), setup));
  }
  return most;
}

base::Result<std::unique_ptr<Store>> make_store(const Spec& spec, const Setup& setup) {
  if (!setup.layers.empty()) return make_grouped_store(spec, setup);
  KVICK_TRY(const Strategy* strategy, checked_strategy(spec));
  KVICK_TRY_VOID(check_shape(setup.shape));
  KVICK_TRY_VOID(check_slots(*strategy, setup.slots != nullptr));
  KVICK_TRY_VOID(check_tier(*strategy, setup));
  KVICK_TRY_VOID(check_ranges(setup));
  if (!setup.select.spec.name.empty()) return make_policy_store({*strategy, spec}, setup);
  if (setup.shape.aging) return make_aged_store(*strategy, spec, setup);
  if (strategy->make_rows == nullptr) return strategy->make(setup, spec);
  KVICK_TRY(std::unique_ptr<RowStore> store, strategy->make_rows(setup, spec));
  return std::unique_ptr<Store>(std::move(store));
}

StoreInfo info_of(const Spec& spec, const Setup& setup) {
  return {.groups = setup.layers.empty() ? std::vector{setup.shape} : grouped_shapes(setup),
          .most_tokens = most_tokens_of(*find_strategy(spec.name), spec, setup)};
}

base::Result<std::vector<Cost>> group_costs(const Spec& spec, const Setup& setup,
                                            const Load& load) {
  if (!setup.layers.empty()) return grouped_costs(spec, setup, load);
  KVICK_TRY(const Cost cost, cost_of(spec, setup, load));
  return std::vector{cost};
}

base::Result<Cost> cost_of(const Spec& spec, const Setup& setup, const Load& load) {
  if (!setup.layers.empty()) {
    KVICK_TRY(const std::vector<Cost> groups, grouped_costs(spec, setup, load));
    return sum_of(groups);
  }
  KVICK_TRY(const Strategy* strategy, checked_strategy(spec));
  KVICK_TRY_VOID(check_shape(setup.shape));
  KVICK_TRY_VOID(check_slots(*strategy, setup.slots != nullptr));
  KVICK_TRY_VOID(check_tier(*strategy, setup));
  if (const uint32_t most = most_tokens_of(*strategy, spec, setup); load.tokens > most)
    return base::fail("a sequence of {} tokens is past the context of {}", load.tokens, most);
  if (!setup.select.spec.name.empty()) return policy_cost({*strategy, spec}, setup, load);
  if (setup.shape.aging) return aged_cost(*strategy, spec, setup, load);
  return strategy->cost(setup, spec, load);
}

}  // namespace kvick::kv
