// DuoAttention: some KV heads ("retrieval heads") keep all rows, the others ("streaming heads")
// only the sinks and the newest rows ("DuoAttention: Efficient Long-Context LLM Inference with
// Retrieval and Streaming Heads", Xiao et al. 2024, arXiv:2410.10819, section 2). A file has a
// score for each head: how much its output changes without distant rows.
//
// The paper gives the share of retrieval heads, so its memory depends on the length too. Here a
// budget says how many rows stay on average over all heads of all layers, as for the other
// policies, and the number of retrieval heads follows: with a budget of b rows per head behind n
// tokens about (b - w) / (n - w) of the heads keep all rows, where w = sinks + recent. A small
// w, as in the paper, loses far more with such a budget than half of the budget does (ADR 72).
// Heads give up their oldest rows in ascending order of their scores, so one head lies in between.
// A head that has given up rows keeps all new ones as soon as the budget allows it.

#include <fmt/format.h>

#include "kv/forget/forget_policy.h"
#include "kv/select/predictor.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kMostDrop = 1 << 20;
constexpr Option kOptions[] = {
    budget_option(),
    sinks_option("16"),
    half_recent_option(),
    {.name = "file", .summary = "the heads' scores, which kvick train duo finds", .fallback = ""},
    {.name = "drop", .summary = "rows that are given up at a time", .fallback = "16"},
    least_option()};

base::Result<ForgetRule> rule_of(const Setup& setup) {
  ForgetRule rule = {.noted = Noted::kHead, .shared = Shared::kModel};
  const Spec& spec = setup.select.spec;
  KVICK_TRY_VOID(read_budget(spec, kOptions[0], rule.selection));
  KVICK_TRY(rule.selection.sinks, read_rows(spec, kOptions[1]));
  KVICK_TRY_VOID(read_recent(spec, kOptions[2], rule));
  KVICK_TRY(const uint64_t drop, read_number(spec, kOptions[4], 1, kMostDrop));
  rule.drop = static_cast<uint32_t>(drop);
  const uint64_t least = drop + rule.selection.sinks + rule.selection.recent;
  if (rule.selection.share == 0 && rule.selection.rows < least)
    return base::fail(
        "duo: sinks={}{} and drop={} together are more than a budget of {} rows: lower them",
        rule.selection.sinks,
        rule.half_recent ? "" : fmt::format(", recent={}", rule.selection.recent), drop,
        rule.selection.rows);
  return rule;
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Layout& layout) {
  KVICK_TRY(const ForgetRule rule, rule_of(setup));
  if (setup.select.predictor == nullptr)
    return base::fail(
        "duo needs the scores of KV heads: file=NAME.kvp, which kvick train duo makes");
  const PredictorShape& measured = setup.select.predictor->shape;
  const Shape& shape = setup.shape;
  if (measured.form != PredictorForm::kRetrieval)
    return base::fail(
        "duo: the file is a predictor for another policy: kvick train duo makes duo's");
  if (measured.layers != shape.layers || measured.kv_heads != shape.kv_heads)
    return base::fail(
        "duo: the file has scores of {} layers of {} KV heads, but this model has {} and {}: make "
        "its own with kvick train duo",
        measured.layers, measured.kv_heads, shape.layers, shape.kv_heads);
  return make_forget_store(setup, layout, rule);
}

}  // namespace

Policy duo_policy() {
  Policy policy = forgetting_policy<rule_of>(
      "duo", "forgets: keeps all rows of the KV heads that need distant rows (DuoAttention)",
      kOptions);
  policy.make = make;
  return policy;
}

}  // namespace kvick::kv
