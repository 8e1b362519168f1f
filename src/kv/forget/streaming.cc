// StreamingLLM: keeps the first rows (sinks) and a window of the newest ("Efficient Streaming
// Language Models with Attention Sinks", Xiao et al. 2023, section 3.2). Positions count within the
// cache. Distances within the window are right without change, because keys are stored rotated. For
// the sinks the query is rotated again, to the position after the remaining rows. So with a budget
// in rows a text may have any length (section 4.1 reads 4 million tokens). A model without rotary
// embedding has its positions in the rows themselves; there they stay those of the text.

#include "kv/forget/forget_policy.h"

namespace kvick::kv {
namespace {

constexpr Option kOptions[] = {budget_option(), sinks_option(), least_option()};

base::Result<ForgetRule> rule_of_spec(const Spec& spec) {
  ForgetRule rule = {.rotates_sinks = true};
  KVICK_TRY_VOID(read_budget(spec, kOptions[0], rule.selection));
  KVICK_TRY(rule.selection.sinks, read_rows(spec, kOptions[1]));
  return rule;
}

base::Result<ForgetRule> rule_of(const Setup& setup) { return rule_of_spec(setup.select.spec); }

void change_traits(Traits& traits) {
  forgetting_traits(traits);
  traits.per_query = true;  // the sinks are read with queries of their own
}

void limit_traits(const Spec& spec, Traits& traits) {
  const base::Result<ForgetRule> rule = rule_of_spec(spec);
  if (!rule.ok()) return;  // making a store says why
  const Traits own = endless_traits(*rule);
  traits.endless = own.endless;
  traits.most_kept = own.most_kept;
}

}  // namespace

Policy streaming_policy() {
  Policy policy = forgetting_policy<rule_of>(
      "streaming", "forgets: keeps the first rows and a window of the newest (StreamingLLM)",
      kOptions);
  policy.change_traits = change_traits;
  policy.limit_traits = limit_traits;
  return policy;
}

}  // namespace kvick::kv
