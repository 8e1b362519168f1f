// StreamingLLM: the first rows and a window of the newest ("Efficient Streaming Language Models
// with Attention Sinks", Xiao et al. 2023, section 3.2). Positions are places in the cache. The
// distances within the window are right as keys were rotated; for the sinks the query is rotated
// again, to the place behind the rows that are left. A model without rotary embedding has its
// positions in the rows themselves, which then stay those of the text.

#include "kv/forget/forget_store.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {budget_option(), sinks_option(), least_option()};

base::Result<ForgetRule> rule_of(const Setup& setup) {
  ForgetRule rule = {.rotates_sinks = true};
  KVICK_TRY_VOID(read_budget(setup.select.spec, kOptions[0], rule.selection));
  KVICK_TRY(rule.selection.sinks, read_rows(setup.select.spec, kOptions[1]));
  return rule;
}

void change_traits(Traits& traits) {
  forgetting_traits(traits);
  traits.per_query = true;  // the sinks' queries
}

}  // namespace

Policy streaming_policy() {
  Policy policy = forgetting_policy<rule_of>(
      "streaming", "forgets: keeps the first rows and a window of the newest (StreamingLLM)",
      kOptions);
  policy.change_traits = change_traits;
  return policy;
}

}  // namespace kvick::kv
