// H2O: half of the budget is for the newest rows, the other half for the rows with the most
// attention so far, summed over all queries and chosen per KV head ("H2O: Heavy-Hitter Oracle for
// Efficient Generative Inference of Large Language Models", Zhang et al. 2023, algorithm 1). The
// sum is over all queries that share a KV head, those of rejected draft tokens included.

#include "kv/forget/forget_policy.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {budget_option(), sinks_option("0"), half_recent_option(),
                               least_option()};

base::Result<ForgetRule> rule_of(const Setup& setup) {
  ForgetRule rule = {.noted = Noted::kMass};
  KVICK_TRY_VOID(read_budget(setup.select.spec, kOptions[0], rule.selection));
  KVICK_TRY(rule.selection.sinks, read_rows(setup.select.spec, kOptions[1]));
  KVICK_TRY_VOID(read_recent(setup.select.spec, kOptions[2], rule));
  return rule;
}

}  // namespace

Policy h2o_policy() {
  return forgetting_policy<rule_of>(
      "h2o", "forgets: keeps new rows and those that had most attention so far", kOptions);
}

}  // namespace kvick::kv
