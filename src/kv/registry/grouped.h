#pragma once
// Internal to the registry: stores for models whose layers are not alike (Setup::layers), one group
// of layers after the other. The strategy and its options are those of every group of rows; a
// policy, and types that change with age, are those of the groups that can follow them.

#include "kv/strategy/strategy.h"

namespace kvick::kv {

base::Result<std::unique_ptr<Store>> make_grouped_store(const Spec& spec, const Setup& setup);
// Of each group's store.
std::vector<Shape> grouped_shapes(const Setup& setup);
base::Result<std::vector<Cost>> grouped_costs(const Spec& spec, const Setup& setup,
                                              const Load& load);
Cost sum_of(std::span<const Cost> groups);

}  // namespace kvick::kv
