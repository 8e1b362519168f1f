#pragma once
// The strategies, one row each. The command line, the server, the planner, the lab and the tests
// read this table (strategies(), in kv/strategy/strategy.h) and nothing else; there is no enum
// beside it.

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kv/strategy/strategy.h"

namespace kvick::kv {

const Strategy* find_strategy(std::string_view name);
// Adds all rows at the end of the table, or none and returns an error. Call it before the program
// has several threads or stores: the table is read without a lock.
base::Status<> add_strategies(std::span<const Strategy> rows);
// Returns the strategy to use if none is named: the first one for slots if `memory`, else the first
// one that keeps rows in a slower tier (`tier`) or in memory.
const Strategy& default_strategy(bool memory, bool tier);

// Returns the traits of a strategy's stores of this shape, with the spec's options and under the
// policy `select`, if these are given.
Traits traits_of(const Strategy& strategy, const Shape& shape, const Spec& spec = {},
                 const Spec& select = {});
// Returns the traits of a store of several groups, combined over the groups. Groups that do not
// follow the policy read all of their rows.
Traits traits_of_groups(const Strategy& strategy, std::span<const Shape> groups,
                        const Spec& spec = {}, const Spec& select = {});
// Returns Store::most_tokens of the store that make_store would make.
uint32_t most_tokens_of(const Strategy& strategy, const Spec& spec, const Setup& setup);
// Returns whether a policy may choose which rows of such a group are read. Rows of a window are few
// enough to read all; latent rows and states are not keys.
bool follows_policy(const Shape& shape);

// Makes a store for a spec, under the setup's policy. Errors name the strategies or options that
// exist, or say that static types lack their ranges.
base::Result<std::unique_ptr<Store>> make_store(const Spec& spec, const Setup& setup);
// Returns Store::info of the store that make_store would make. The spec's strategy must exist.
StoreInfo info_of(const Spec& spec, const Setup& setup);
// Returns what that store would cost. Errors: as make_store, and more tokens than most_tokens.
base::Result<Cost> cost_of(const Spec& spec, const Setup& setup, const Load& load);
// Returns the cost of each group, in the order of StoreInfo::groups.
base::Result<std::vector<Cost>> group_costs(const Spec& spec, const Setup& setup, const Load& load);

}  // namespace kvick::kv
