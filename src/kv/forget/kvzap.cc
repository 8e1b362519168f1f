// KVzap: drops the rows that a predictor expects to get little attention. The predictor is linear
// in the layer's input, scores each row once when it is written, and is trained for the model
// beforehand ("KVzap: Fast, Adaptive, and Faithful KV Cache Pruning", arXiv 2601.07891). The newest
// rows stay: half of the budget by default, because a score does not reflect that attention to a
// row fades with time.
//
// The paper drops rows whose score is below one threshold for all layers and heads. Here a budget
// says how many rows stay: those with the highest scores over all layers and heads. So the memory
// that a sequence may take is known before it begins.

#include "kv/forget/forget_policy.h"
#include "kv/select/predictor.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kMostDrop = 1 << 20;
constexpr Option kOptions[] = {
    budget_option(),
    sinks_option(),
    half_recent_option(),
    {.name = "file", .summary = "the predictor, which kvick train kvzap makes", .fallback = ""},
    {.name = "shared",
     .summary = "model: rows of all layers and KV heads compete for the budget; layer: those of "
                "one layer compete; head: each KV head keeps the same number",
     .fallback = "model"},
    {.name = "drop", .summary = "rows that are given up at a time", .fallback = "16"},
    least_option()};

base::Result<ForgetRule> rule_of(const Setup& setup) {
  ForgetRule rule = {.noted = Noted::kPredicted};
  const Spec& spec = setup.select.spec;
  KVICK_TRY_VOID(read_budget(spec, kOptions[0], rule.selection));
  KVICK_TRY(rule.selection.sinks, read_rows(spec, kOptions[1]));
  KVICK_TRY_VOID(read_recent(spec, kOptions[2], rule));
  KVICK_TRY(const size_t shared, read_choice(spec, kOptions[4], {"model", "layer", "head"}));
  constexpr Shared kShared[] = {Shared::kModel, Shared::kLayer, Shared::kHead};
  rule.shared = kShared[shared];
  KVICK_TRY(const uint64_t drop, read_number(spec, kOptions[5], 1, kMostDrop));
  rule.drop = static_cast<uint32_t>(drop);
  const uint64_t least = drop + rule.selection.sinks;
  if (rule.selection.share == 0 && rule.selection.rows < least)
    return base::fail(
        "kvzap: drop={} and sinks={} together are more than a budget of {} rows: lower drop", drop,
        rule.selection.sinks, rule.selection.rows);
  return rule;
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Layout& layout) {
  KVICK_TRY(const ForgetRule rule, rule_of(setup));
  if (setup.select.predictor == nullptr)
    return base::fail("kvzap needs a predictor: file=NAME.kvp, which kvick train kvzap makes");
  const PredictorShape& trained = setup.select.predictor->shape;
  const Shape& shape = setup.shape;
  if (trained.form != PredictorForm::kScores)
    return base::fail(
        "kvzap: the file is a predictor for another policy: kvick train kvzap makes kvzap's");
  if (trained.layers != shape.layers || trained.kv_heads != shape.kv_heads ||
      trained.dim != setup.select.model_dim)
    return base::fail(
        "kvzap: the predictor is for {} layers of {} KV heads and inputs of {} values, but this "
        "model has {}, {} and {}: make its own with kvick train kvzap",
        trained.layers, trained.kv_heads, trained.dim, shape.layers, shape.kv_heads,
        setup.select.model_dim);
  return make_forget_store(setup, layout, rule);
}

}  // namespace

Policy kvzap_policy() {
  Policy policy = forgetting_policy<rule_of>(
      "kvzap", "forgets: keeps new rows and those that a trained predictor finds most useful",
      kOptions);
  policy.make = make;
  return policy;
}

}  // namespace kvick::kv
