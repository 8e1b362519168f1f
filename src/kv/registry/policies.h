#pragma once
// The policies, one row each. The command line, the server, the planner, the lab and the tests read
// this table and nothing else. A new policy is a file in kv/select or kv/forget and a line in
// policies.cc; a program adds its own by add_policies.

#include <memory>
#include <span>
#include <string_view>

#include "kv/strategy/policy.h"

namespace kvick::kv {

// Returns the policies in the table now. Adding more later does not move them.
std::span<const Policy> policies();
// Adds all of the policies to the table, or none and returns an error. Any thread may call it.
// Their names, summaries and options must live as long as the program.
base::Status<> add_policies(std::span<const Policy> rows);
// Returns whether add_policies would accept the rows. Changes nothing.
base::Status<> check_policies(std::span<const Policy> rows);
const Policy* find_policy(std::string_view name);
// Returns whether `select` names a policy with Traits::forgets, which keeps rows in its own memory.
bool forgets(const Spec& select);
// Returns whether the policy needs a file trained for the model (kv::Predictor). Such a model must
// have layers that are all alike.
bool needs_file(const Policy& policy);

// Make the store, or return the cost, of the policy that setup.select.spec names. Errors: unknown
// policy or option; a strategy that does not keep its rows; windows or latent rows; rows whose type
// changes with age; the policy's own errors.
base::Result<std::unique_ptr<Store>> make_policy_store(const Layout& layout, const Setup& setup);
base::Result<Cost> policy_cost(const Layout& layout, const Setup& setup, const Load& load);

}  // namespace kvick::kv
