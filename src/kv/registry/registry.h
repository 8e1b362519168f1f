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
// Adds rows at the end of the table: all, or none and an error that says why. Once a program has
// several threads or stores it is too late: the table is read without a lock.
base::Status<> add_strategies(std::span<const Strategy> rows);
// Where nobody names one: the first for a model with or without a memory of slots and, without one,
// for rows in a slower tier or in memory.
const Strategy& default_strategy(bool memory, bool tier);

// What holds of a strategy's stores for that shape and, if they are given, with the spec's options
// and under a policy.
Traits traits_of(const Strategy& strategy, const Shape& shape, const Spec& spec = {},
                 const Spec& select = {});
// The same of a store of several groups: what holds of each of them. Groups that the policy cannot
// choose rows of read all of theirs.
Traits traits_of_groups(const Strategy& strategy, std::span<const Shape> groups,
                        const Spec& spec = {}, const Spec& select = {});
// Store::most_tokens of make_store's store.
uint32_t most_tokens_of(const Strategy& strategy, const Spec& spec, const Setup& setup);
// Whether a policy may choose which of such a group's rows are read: those of a window are few
// enough to read them all, and latent rows and states are not keys.
bool follows_policy(const Shape& shape);

// A store for a spec, under the setup's policy; errors name the strategies or options that exist,
// or say that static types lack their ranges.
base::Result<std::unique_ptr<Store>> make_store(const Spec& spec, const Setup& setup);
// Its Store::info, without making it. The spec's strategy exists.
StoreInfo info_of(const Spec& spec, const Setup& setup);
// What it would cost, without making it. Error: as above, and more tokens than most_tokens.
base::Result<Cost> cost_of(const Spec& spec, const Setup& setup, const Load& load);
// The same of each group, in the order of StoreInfo::groups.
base::Result<std::vector<Cost>> group_costs(const Spec& spec, const Setup& setup, const Load& load);

}  // namespace kvick::kv
