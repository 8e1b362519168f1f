// Scissorhands: drops several rows at a time, whenever the number of tokens is a multiple of
// `drop`. It drops first the rows that most often got less than an even share of a recent query's
// attention ("Scissorhands: Exploiting the Persistence of Importance Hypothesis for LLM KV Cache
// Compression at Test Time", Liu et al. 2023, algorithms 1 and 2). The newest rows stay; of rows
// with equal counts the newer stay. Counts start anew after each drop, so the window of history is
// at most the time between two drops. In steps of many tokens, such as a prompt's, the mean over
// their queries counts.

#include "kv/forget/forget_policy.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kMostRows = 1 << 20;
constexpr Option kOptions[] = {
    budget_option(),
    sinks_option("0"),
    recent_option("10"),
    {.name = "drop", .summary = "rows that are given up at a time", .fallback = "64"},
    {.name = "history",
     .summary = "newest queries whose attention counts, of those since rows were last dropped",
     .fallback = "400"},
    least_option()};

base::Result<ForgetRule> rule_of(const Setup& setup) {
  ForgetRule rule = {.noted = Noted::kLows};
  const Spec& spec = setup.select.spec;
  KVICK_TRY_VOID(read_budget(spec, kOptions[0], rule.selection));
  KVICK_TRY(rule.selection.sinks, read_rows(spec, kOptions[1]));
  KVICK_TRY(rule.selection.recent, read_rows(spec, kOptions[2]));
  KVICK_TRY(const uint64_t drop, read_number(spec, kOptions[3], 1, kMostRows));
  KVICK_TRY(const uint64_t history, read_number(spec, kOptions[4], 1, kMostRows));
  rule.drop = static_cast<uint32_t>(drop);
  rule.history = static_cast<uint32_t>(history);
  const uint64_t least = drop + rule.selection.sinks + rule.selection.recent;
  if (rule.selection.share == 0 && rule.selection.rows < least)
    return base::fail(
        "scissorhands: drop={}, sinks={} and recent={} together are more than a budget of {} rows: "
        "lower drop",
        drop, rule.selection.sinks, rule.selection.recent, rule.selection.rows);
  return rule;
}

}  // namespace

Policy scissorhands_policy() {
  return forgetting_policy<rule_of>(
      "scissorhands", "forgets: drops rows that recent queries paid little attention to", kOptions);
}

}  // namespace kvick::kv
