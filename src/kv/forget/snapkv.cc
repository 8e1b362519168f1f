// SnapKV: keeps the rows that the last `window` queries paid most attention to, and the window's
// own rows ("SnapKV: LLM Knows What You are Looking for Before Generation", Li et al. 2024,
// arXiv:2404.14469). The probabilities are summed over those queries and over the query heads of a
// KV head, then pooled over neighbouring positions, so that a found row brings its surroundings.
// With heads=ada the KV heads of a layer compete for its budget; first each gets its own best rows,
// up to a share of an even part ("Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget
// Allocation for Efficient LLM Inference", Feng et al. 2024, arXiv:2407.11550).
//
// The paper chooses once, after the whole prompt, and keeps all rows of the answer. Here the budget
// bounds what a sequence holds at any time: the choice is made anew over all held rows after each
// piece of a prompt that needs room, and while answering every `drop` tokens.

#include "kv/forget/forget_policy.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kMostDrop = 1 << 20;
// Each held row has a float for each query of the window; the paper has 16 to 64.
constexpr uint32_t kMostWindow = 128;
constexpr uint32_t kMostPool = 127;
constexpr Option kOptions[] = {
    budget_option(),
    sinks_option("0"),
    {.name = "window",
     .summary = "newest rows that are always kept, and whose queries choose the others",
     .fallback = "32"},
    {.name = "pool",
     .summary = "neighbouring positions whose scores are pooled, an odd number; 1: none",
     .fallback = "7"},
    {.name = "pooling",
     .summary = "max: a row scores as the best of its neighbours; mean: as their mean",
     .fallback = "max"},
    heads_option(),
    safeguard_option(),
    {.name = "drop", .summary = "rows that are given up at a time", .fallback = "16"},
    least_option()};

base::Status<> check_rows(const ForgetRule& rule) {
  const Selection& selection = rule.selection;
  const uint64_t least = uint64_t{rule.drop} + selection.sinks + rule.window;
  if (selection.share != 0 || selection.rows >= least) return base::Done{};
  return base::fail(
      "snapkv: window={}, sinks={} and drop={} together are more than a budget of {} rows: lower "
      "window",
      rule.window, selection.sinks, rule.drop, selection.rows);
}

base::Result<ForgetRule> rule_of(const Setup& setup) {
  ForgetRule rule = {.noted = Noted::kWindow};
  const Spec& spec = setup.select.spec;
  KVICK_TRY_VOID(read_budget(spec, kOptions[0], rule.selection));
  KVICK_TRY(rule.selection.sinks, read_rows(spec, kOptions[1]));
  KVICK_TRY(const uint64_t window, read_number(spec, kOptions[2], 1, kMostWindow));
  rule.window = rule.selection.recent = static_cast<uint32_t>(window);
  KVICK_TRY(const uint64_t pool, read_number(spec, kOptions[3], 1, kMostPool));
  if (pool % 2 == 0)
    return base::fail("snapkv: pool={} has no row in the middle: give an odd number", pool);
  rule.pool = static_cast<uint32_t>(pool);
  KVICK_TRY(const size_t mean, read_choice(spec, kOptions[4], {"max", "mean"}));
  rule.averages = mean == 1;
  KVICK_TRY_VOID(read_heads(spec, kOptions[5], kOptions[6], rule));
  KVICK_TRY(const uint64_t drop, read_number(spec, kOptions[7], 1, kMostDrop));
  rule.drop = static_cast<uint32_t>(drop);
  KVICK_TRY_VOID(check_rows(rule));
  return rule;
}

}  // namespace

Policy snapkv_policy() {
  return forgetting_policy<rule_of>(
      "snapkv", "forgets: keeps new rows and those that the newest queries paid most attention to",
      kOptions);
}

}  // namespace kvick::kv
