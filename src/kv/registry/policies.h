#pragma once
// The policies, one row each. The command line, the server, the planner, the lab and the tests read
// this table and nothing else. A new policy is a file in kv/select or kv/forget and a line in
// policies.cc; a program adds its own by add_policies.

#include <memory>
#include <span>
#include <string_view>

#include "kv/strategy/policy.h"

namespace kvick::kv {

// The policies at the time of the call. Adding more later does not move them.
std::span<const Policy> policies();
// Adds policies to the table: all of them, or none and an error that says why. Any thread may call
// it. Their names, summaries and options must live as long as the program.
base::Status<> add_policies(std::span<const Policy> rows);
// Whether add_policies would take them. Changes nothing.
base::Status<> check_policies(std::span<const Policy> rows);
const Policy* find_policy(std::string_view name);
// Whether it names a policy with Traits::forgets: its rows lie in memory of its own.
bool forgets(const Spec& select);
// Whether it needs a file that was trained for the model (kv::Predictor), whose layers are alike.
bool needs_file(const Policy& policy);

// Of setup.select.spec, which names a policy. Errors: no such policy or option; a strategy that
// keeps no rows in place; rows that change their type with age; the policy's own.
base::Result<std::unique_ptr<Store>> make_policy_store(const Layout& layout, const Setup& setup);
base::Result<Cost> policy_cost(const Layout& layout, const Setup& setup, const Load& load);

}  // namespace kvick::kv
