// Expected Attention: keeps the rows that later queries are expected to attend to most ("Expected
// Attention: KV Cache Compression by Estimating Attention from Future Queries Distribution",
// Devoto, Jeblick and Jegou 2025, arXiv:2510.00636; no training). Later queries are taken to be
// distributed like those so far: with mean m and covariance C before rotation, per query head,
// queries of the sinks left out. Let R be the rotation averaged over the next `future` positions. A
// row with key k and value v scores as the softmax over the rows of
//   k . R m / sqrt(d) + k . R C R^T k / (2 d),
// averaged over the query heads of the KV head, plus epsilon, times the norm of v. With heads=ada
// the KV heads of a layer share its rows as in snapkv.cc.
//
// The paper's score has the norm of what v adds to the residual stream; a store does not know the
// output projection. Rows of all layers keep one budget, held after every step (ADR 71).

#include "kv/forget/forget_policy.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kMostRows = 1 << 20;
constexpr uint64_t kMillion = 1000000;
constexpr Option kOptions[] = {
    budget_option(),
    sinks_option(),
    recent_option(),
    {.name = "future",
     .summary = "next queries whose attention is expected; the rotation is averaged over their "
                "positions",
     .fallback = "512"},
    {.name = "cov",
     .summary = "what is known of how queries vary: their full covariance, its diagonal, or off: "
                "their mean alone",
     .fallback = "full"},
    {.name = "vnorm",
     .summary = "on: multiply the expected attention by the norm of the row's value",
     .fallback = "on"},
    {.name = "epsilon",
     .summary = "added to the expected attention before it is multiplied by the norm",
     .fallback = "0"},
    heads_option(),
    safeguard_option(),
    {.name = "drop", .summary = "rows that are given up at a time", .fallback = "32"},
    least_option()};

base::Status<> read_expectation(const Setup& setup, Expectation& how) {
  const Spec& spec = setup.select.spec;
  KVICK_TRY(const uint64_t future, read_number(spec, kOptions[3], 1, kMostRows));
  how.future = static_cast<uint32_t>(future);
  KVICK_TRY(const size_t covariance, read_choice(spec, kOptions[4], {"off", "diagonal", "full"}));
  how.covariance = static_cast<Covariance>(covariance);
  KVICK_TRY(how.value_norms, read_switch(spec, kOptions[5]));
  KVICK_TRY(const uint64_t epsilon, read_decimal(spec, kOptions[6], 0, kMillion));
  how.epsilon = static_cast<float>(epsilon) / kMillion;
  if (!how.value_norms && epsilon > 0)
    return base::fail(
        "expected: epsilon= changes nothing without the norms of values: leave vnorm=off or "
        "epsilon= out");
  how.group = setup.select.group;
  if (!setup.select.rotation.frequency.empty()) how.turned = setup.select.rotation.dims;
  return base::Done{};
}

base::Result<ForgetRule> rule_of(const Setup& setup) {
  ForgetRule rule = {.noted = Noted::kExpected};
  const Spec& spec = setup.select.spec;
  Selection& selection = rule.selection;
  KVICK_TRY_VOID(read_budget(spec, kOptions[0], selection));
  KVICK_TRY(selection.sinks, read_rows(spec, kOptions[1]));
  KVICK_TRY(selection.recent, read_rows(spec, kOptions[2]));
  KVICK_TRY_VOID(read_expectation(setup, rule.expected));
  KVICK_TRY_VOID(read_heads(spec, kOptions[7], kOptions[8], rule));
  KVICK_TRY(const uint64_t drop, read_number(spec, kOptions[9], 1, kMostRows));
  rule.drop = static_cast<uint32_t>(drop);
  const uint64_t least = drop + selection.sinks + selection.recent;
  if (selection.share == 0 && selection.rows < least)
    return base::fail(
        "expected: drop={}, sinks={} and recent={} together are more than a budget of {} rows: "
        "lower drop",
        drop, selection.sinks, selection.recent, selection.rows);
  return rule;
}

}  // namespace

Policy expected_policy() {
  return forgetting_policy<rule_of>(
      "expected",
      "forgets: keeps new rows and those that later queries are expected to attend to most "
      "(Expected Attention)",
      kOptions);
}

}  // namespace kvick::kv
