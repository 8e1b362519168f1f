#pragma once
// Internal to the registry: stores for models whose layers differ (Setup::layers), made group by
// group. Every group of rows gets the same strategy and options. A policy, and types that change
// with age, apply only to the groups that support them.

#include "kv/strategy/strategy.h"

namespace kvick::kv {

base::Result<std::unique_ptr<Store>> make_grouped_store(const Spec& spec, const Setup& setup);
// Returns the shape of each group's store.
std::vector<Shape> grouped_shapes(const Setup& setup);
base::Result<std::vector<Cost>> grouped_costs(const Spec& spec, const Setup& setup,
                                              const Load& load);
Cost sum_of(std::span<const Cost> groups);

}  // namespace kvick::kv
