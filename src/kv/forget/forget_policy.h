#pragma once
// Makes the functions of a Policy from a rule (forget_rule.h). Internal to the policies that forget
// rows.

#include "kv/forget/forget_rule.h"
#include "kv/strategy/policy.h"

namespace kvick::kv {

// Implement Policy::make and cost for a rule. With load.step > 1, Cost::fast_bytes has what the
// last step takes until it ends too, if it is one in which the sequences grow.
base::Result<std::unique_ptr<Store>> make_forget_store(const Setup& setup, const Layout& layout,
                                                       const ForgetRule& rule);
base::Result<Cost> forget_cost(const Setup& setup, const Layout& layout, const ForgetRule& rule,
                               const Load& load);
// Implements Policy::change_traits.
void forgetting_traits(Traits& traits);

// Makes the table row of a policy whose rule depends on its options only.
template <base::Result<ForgetRule> (*rule_of)(const Setup& setup)>
Policy forgetting_policy(std::string_view name, std::string_view summary,
                         std::span<const Option> options) {
  return {
      .name = name,
      .summary = summary,
      .options = options,
      .change_traits = forgetting_traits,
      .make = [](const Setup& setup, const Layout& layout) -> base::Result<std::unique_ptr<Store>> {
        KVICK_TRY(const ForgetRule rule, rule_of(setup));
        return make_forget_store(setup, layout, rule);
      },
      .cost = [](const Setup& setup, const Layout& layout, const Load& load) -> base::Result<Cost> {
        KVICK_TRY(const ForgetRule rule, rule_of(setup));
        return forget_cost(setup, layout, rule, load);
      }};
}

}  // namespace kvick::kv
