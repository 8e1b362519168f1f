#include "kv/registry/grouped.h"

#include <algorithm>

#include "kv/groups/grouped_store.h"
#include "kv/registry/registry.h"
#include "kv/state/empty_store.h"
#include "kv/state/state_store.h"
#include "kv/strategy/budget.h"
#include "kv/strategy/ranges.h"
#include "kv/values/saturating.h"

namespace kvick::kv {
namespace {

using Keeps = LayerSpec::Keeps;

// Returns the ranges of the group's layers, in order; all: [layer][kv head] of the whole model.
std::vector<float> ranges_of(const std::vector<float>& all, const Setup& setup,
                             const LayerGroup& group) {
  std::vector<float> ranges;
  size_t first = 0;
  for (uint32_t layer = 0; layer < setup.layers.size(); ++layer) {
    const uint32_t heads = setup.layers[layer].kv_heads;
    if (std::binary_search(group.layers.begin(), group.layers.end(), layer))
      for (size_t i = first; i < std::min(all.size(), first + heads); ++i) ranges.push_back(all[i]);
    first += heads;
  }
  return ranges;
}

Setup setup_of(const Setup& setup, const LayerGroup& group) {
  const LayerSpec& spec = group.spec;
  Setup one = setup;
  one.layers.clear();
  Shape& shape = one.shape;
  shape.layers = static_cast<uint32_t>(group.layers.size());
  shape.kv_heads = spec.kv_heads;
  shape.head_dim = spec.k_dim;
  shape.v_dim = spec.v_dim == spec.k_dim ? 0 : spec.v_dim;
  shape.latent = spec.keeps == Keeps::kLatent;
  if (shape.latent) shape.v_type = shape.k_type;
  // A window as long as the context hides no row.
  const bool hides = spec.window < shape.max_tokens;
  shape.window = hides ? spec.window : 0;
  shape.chunked = hides && spec.chunked;
  one.select.group = spec.group;
  if (spec.keeps == Keeps::kSlots) return one;
  one.slots = nullptr;
  if (shape.latent) shape.aging.reset();
  if (!follows_policy(shape)) one.select.spec = {};
  if (setup.ranges != nullptr)
    one.ranges =
        std::make_shared<StaticRanges>(StaticRanges{.k = ranges_of(setup.ranges->k, setup, group),
                                                    .v = ranges_of(setup.ranges->v, setup, group)});
  return one;
}

// For a model whose layers keep nothing.
Setup setup_of_nothing(const Setup& setup) {
  Setup one = setup;
  one.layers.clear();
  one.shape.layers = one.shape.kv_heads = one.shape.head_dim = one.shape.v_dim = 0;
  one.shape.window = 0;
  one.shape.chunked = false;
  one.shape.aging.reset();
  return one;
}

// A state is not a row: of the shape only the number of layers and state_bytes matter.
Setup setup_of_states(Setup one, const LayerSpec& spec) {
  one.shape.kv_heads = 1;
  one.shape.head_dim = one.shape.v_dim = 0;
  one.shape.state_bytes = spec.state_bytes;
  one.shape.aging.reset();
  one.select.spec = {};
  return one;
}

// Counts the layers that read the group's rows: its own layers and those that share their rows.
uint64_t readers_of(const LayerGroup& group, const Setup& setup) {
  uint64_t readers = group.layers.size();
  for (const LayerSpec& layer : setup.layers)
    if (layer.keeps == Keeps::kNothing &&
        std::binary_search(group.layers.begin(), group.layers.end(), layer.rows_of))
      ++readers;
  return readers;
}

// A step holds two states per sequence: before and after it. States of draft tokens are not
// counted, because the drafts are dropped if memory is short.
Cost cost_of_states(const LayerGroup& group, const Load& load) {
  const uint64_t bytes = saturating_mul(group.layers.size(), group.spec.state_bytes);
  return {.fast_bytes = saturating_mul(load.sequences, saturating_mul(2, bytes)),
          .read_bytes_per_token = bytes};
}

// Returns whether prompts with a common prefix share the rows of all layers that have rows. A
// checkpoint of states is useless without those rows. If no layer has rows, only the strategy's
// option can switch sharing off.
bool shares_rows(const Spec& spec, const Setup& setup) {
  const Strategy& strategy = *find_strategy(spec.name);
  bool rows = false;
  for (const Shape& shape : grouped_shapes(setup)) {
    if (shape.state_bytes != 0) continue;
    rows = true;
    if (!traits_of(strategy, shape, spec, follows_policy(shape) ? setup.select.spec : Spec{})
             .shares_prefix)
      return false;
  }
  const Shape plain = {.layers = 1, .kv_heads = 1};
  return rows || traits_of(strategy, plain, spec).shares_prefix ||
         !traits_of(strategy, plain).shares_prefix;
}

base::Result<std::unique_ptr<Store>> make_one(const Spec& spec, const Setup& setup,
                                              const LayerGroup& group) {
  const Setup one = setup_of(setup, group);
  if (group.spec.keeps == Keeps::kState) {
    Setup states = setup_of_states(one, group.spec);
    states.sharing.prefixes = states.sharing.prefixes && shares_rows(spec, setup);
    return std::unique_ptr<Store>(
        std::make_unique<StateStore>(states, most_tokens(find_strategy(spec.name)->traits, setup)));
  }
  if (group.spec.keeps == Keeps::kSlots && !find_strategy(spec.name)->traits.slots)
    return make_store({.name = std::string(default_strategy(true, false).name), .options = {}},
                      one);
  return make_store(spec, one);
}

// Refuses a policy if no group supports one.
base::Status<> check_policy(const Setup& setup) {
  const std::vector<Shape> shapes = grouped_shapes(setup);
  if (setup.select.spec.name.empty() || std::any_of(shapes.begin(), shapes.end(), follows_policy))
    return base::Done{};
  return base::fail(
      "{} chooses among all keys of a sequence, and no layer of this model keeps them: leave "
      "--kv-select out",
      setup.select.spec.name);
}

}  // namespace

base::Result<std::unique_ptr<Store>> make_grouped_store(const Spec& spec, const Setup& setup) {
  const std::vector<LayerGroup> groups = groups_of(setup.layers);
  KVICK_TRY_VOID(check_policy(setup));
  if (groups.empty())
    return std::unique_ptr<Store>(std::make_unique<EmptyStore>(setup_of_nothing(setup)));
  if (groups.size() == 1 && groups[0].layers.size() == setup.layers.size() &&
      groups[0].spec.keeps != Keeps::kState)
    return make_one(spec, setup, groups[0]);
  Setup all = setup;
  // All groups share one limit.
  if (all.limits.max_bytes != UINT64_MAX && all.limits.budget == nullptr)
    all.limits.budget = std::make_shared<Budget>(all.limits.max_bytes);
  std::vector<std::unique_ptr<Store>> stores;
  for (const LayerGroup& group : groups) {
    KVICK_TRY(std::unique_ptr<Store> store, make_one(spec, all, group));
    stores.push_back(std::move(store));
  }
  return std::unique_ptr<Store>(
      std::make_unique<GroupedStore>(setup.layers, std::move(stores), all.limits.budget));
}

std::vector<Shape> grouped_shapes(const Setup& setup) {
  std::vector<Shape> shapes;
  for (const LayerGroup& group : groups_of(setup.layers)) {
    const Setup one = setup_of(setup, group);
    const bool states = group.spec.keeps == Keeps::kState;
    shapes.push_back(states ? setup_of_states(one, group.spec).shape : one.shape);
  }
  if (shapes.empty()) shapes.push_back(setup_of_nothing(setup).shape);
  return shapes;
}

base::Result<std::vector<Cost>> grouped_costs(const Spec& spec, const Setup& setup,
                                              const Load& load) {
  KVICK_TRY_VOID(check_policy(setup));
  std::vector<Cost> costs;
  for (const LayerGroup& group : groups_of(setup.layers)) {
    if (group.spec.keeps == Keeps::kState) {
      costs.push_back(load.tokens == 0 ? Cost{} : cost_of_states(group, load));
      continue;
    }
    KVICK_TRY(Cost cost, cost_of(spec, setup_of(setup, group), load));
    for (uint64_t* const read : {&cost.read_bytes_per_token, &cost.slow_read_bytes_per_token})
      *read = saturating_mul(*read / group.layers.size(), readers_of(group, setup));
    costs.push_back(cost);
  }
  return costs;
}

Cost sum_of(std::span<const Cost> groups) {
  Cost all;
  for (const Cost& one : groups)
    for (const auto bytes :
         {&Cost::fast_bytes, &Cost::slow_bytes, &Cost::read_bytes_per_token,
          &Cost::slow_read_bytes_per_token, &Cost::copied_bytes, &Cost::least_fast_bytes})
      all.*bytes = saturating_add(all.*bytes, one.*bytes);
  return all;
}

}  // namespace kvick::kv
