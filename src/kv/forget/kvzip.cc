// KVzip: drops the rows of one document that the model needs least to repeat it ("KVzip:
// Query-Agnostic KV Cache Compression with Context Reconstruction", Kim et al. 2025, arXiv
// 2505.23416). A file has, for each KV head of each layer, the largest share of attention that each
// of the document's rows gets while the model repeats the document. Whoever reads the document
// first needs all of its rows; once it is in the cache the rows with the lowest scores over all
// layers and heads go, and later rows stay.
//
// Scores hold for this document alone, so a sequence must begin with its tokens (document.h).

#include "kv/forget/forget_policy.h"
#include "kv/select/predictor.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kMostTokens = 1 << 20;  // as in predictor files
constexpr Option kOptions[] = {
    {.name = "budget",
     .summary = "rows of the document that are kept: a share, such as 0.3, or a number",
     .fallback = "0.3"},
    sinks_option(),
    {.name = "file",
     .summary = "the scores of the document's rows, which kvick train kvzip finds",
     .fallback = ""},
    {.name = "other",
     .summary = "what a text that does not begin with the document gets: refuse: an error; keep: "
                "all of its rows",
     .fallback = "refuse"},
    {.name = "tokens",
     .summary = "tokens of the document, where no file is read (kvick plan); 0: all rows count",
     .fallback = "0"},
    least_option()};

base::Result<ForgetRule> rule_of(const Setup& setup) {
  ForgetRule rule = {.noted = Noted::kDocument, .shared = Shared::kModel};
  const Spec& spec = setup.select.spec;
  KVICK_TRY_VOID(read_budget(spec, kOptions[0], rule.selection));
  KVICK_TRY(rule.selection.sinks, read_rows(spec, kOptions[1]));
  KVICK_TRY(const size_t keep, read_choice(spec, kOptions[3], {"refuse", "keep"}));
  rule.keeps_others = keep == 1;
  KVICK_TRY(const uint64_t tokens, read_number(spec, kOptions[4], 0, kMostTokens));
  // Without a file it is not known where the document ends: no row is counted as dropped.
  rule.document = tokens != 0 ? static_cast<uint32_t>(tokens) : UINT32_MAX;
  if (setup.select.predictor == nullptr) return rule;
  if (setup.select.predictor->shape.form != PredictorForm::kDocument)
    return base::fail(
        "kvzip: the file is a predictor for another policy: kvick train kvzip makes kvzip's");
  const uint32_t document = setup.select.predictor->shape.tokens;
  if (tokens != 0 && tokens != document)
    return base::fail("kvzip: tokens={}, but the file's document has {}: leave tokens= out", tokens,
                      document);
  rule.document = document;
  return rule;
}

base::Result<std::unique_ptr<Store>> make(const Setup& setup, const Layout& layout) {
  KVICK_TRY(const ForgetRule rule, rule_of(setup));
  if (setup.select.predictor == nullptr)
    return base::fail(
        "kvzip needs the scores of a document: file=NAME.kvp, which kvick train kvzip makes");
  const PredictorShape& scored = setup.select.predictor->shape;
  const Shape& shape = setup.shape;
  if (scored.layers != shape.layers || scored.kv_heads != shape.kv_heads)
    return base::fail(
        "kvzip: the file has scores of {} layers of {} KV heads, but this model has {} and {}: "
        "make its own with kvick train kvzip",
        scored.layers, scored.kv_heads, shape.layers, shape.kv_heads);
  if (scored.tokens >= shape.max_tokens)
    return base::fail(
        "kvzip: the document has {} tokens, so a context of {} has no room behind it: give a "
        "larger --ctx",
        scored.tokens, shape.max_tokens);
  return make_forget_store(setup, layout, rule);
}

}  // namespace

Policy kvzip_policy() {
  Policy policy = forgetting_policy<rule_of>(
      "kvzip", "forgets: keeps the rows of one document that repeating it needs most (KVzip)",
      kOptions);
  policy.make = make;
  return policy;
}

}  // namespace kvick::kv
