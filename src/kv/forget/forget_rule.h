#pragma once
// Defines which rows a policy that forgets keeps, and how many, from its options and the number of
// tokens.

#include "kv/strategy/selection.h"
#include "kv/strategy/strategy.h"
#include "kv/values/shape.h"

namespace kvick::kv {

// How a row is scored.
enum class Noted : uint8_t {
  kNothing,    // no score: the newest rows stay
  kMass,       // the attention paid to the row, summed over steps and queries (H2O)
  kLows,       // minus the queries that gave the row less than an even share (Scissorhands)
  kPredicted,  // a predictor's score when the row is written (KVzap)
  kWindow,     // the attention paid to the row by the last `window` queries, smoothed (SnapKV)
  kHead,       // the score of the row's KV head, from a file (DuoAttention)
  kExpected,   // the attention that later queries are expected to pay (Expected Attention)
  kDocument,   // the score of a document's row, from a file; no other row is dropped (KVzip)
};

// Which rows compete for the budget: those of each KV head, of each layer, or of the whole model.
// In the last two cases heads whose rows score higher keep more rows.
enum class Shared : uint8_t { kHead, kLayer, kModel };

// What is known of how queries vary about their mean.
enum class Covariance : uint8_t { kOff, kDiagonal, kFull };

// How kExpected scores a row.
struct Expectation {
  Covariance covariance = Covariance::kFull;
  uint32_t future = 0;  // next queries over whose positions the rotation is averaged
  float epsilon = 0;    // added to the expected attention before it is multiplied by the norm
  bool value_norms = true;
  uint32_t group = 1;   // query heads of a KV head
  uint32_t turned = 0;  // elements of a query that the model rotates
};

// The rows that stay: the sinks, the newest rows, and the other rows with the highest scores.
struct ForgetRule {
  Selection selection;
  Noted noted = Noted::kNothing;
  bool half_recent = false;  // the newest rows get half of the budget, not selection.recent
  bool rotates_sinks = false;
  // Rows are dropped when the number of tokens reaches a multiple of this, so this many at a time.
  uint32_t drop = 1;
  uint32_t history = UINT32_MAX;  // last tokens before a drop whose attention is scored
  Shared shared = Shared::kHead;
  uint32_t window = 0;     // queries of kWindow; selection.recent is equal to it
  uint32_t pool = 1;       // positions over which their attention is pooled
  bool averages = false;   // by their mean, not their maximum
  uint32_t safeguard = 0;  // see spared(), in millionths
  Expectation expected;    // of kExpected
  // Of kDocument: tokens of the document, with which a sequence begins. The budget is of its rows,
  // which are dropped once all are held. Other sequences keep all rows (keeps_others) or are lost.
  uint32_t document = 0;
  bool keeps_others = false;

  // Returns whether a sequence may have any length: positions count within the cache, and the
  // number of rows does not grow with the length.
  bool endless() const { return rotates_sinks && selection.share == 0; }
  bool observes() const {
    return noted == Noted::kMass || noted == Noted::kLows || noted == Noted::kWindow;
  }
  bool expects() const { return noted == Noted::kExpected; }
  // Returns the number of KV heads whose rows compete with each other.
  uint32_t together(const Shape& shape) const {
    if (shared == Shared::kHead) return 1;
    return shared == Shared::kLayer ? shape.kv_heads : shape.kv_heads * shape.layers;
  }
  // Returns the rows that each head keeps of a sequence of `tokens` tokens; the average over heads
  // that compete. Rises by at most one per token. Never falls with drop = 1, except where a
  // document's rows are dropped.
  uint32_t held(uint32_t tokens) const;
  // Returns the maximum of held() for more than `from` and at most `to` tokens. Not for kDocument.
  uint32_t most_held(uint32_t from, uint32_t to) const;
  // Returns whether attention is scored in a step that ends with `tokens` tokens.
  bool notes(uint32_t tokens) const;
  // Returns how many of a step's last tokens have their attention apart; 1: the sum of all tokens.
  uint32_t apart(uint32_t fresh) const;
  // Returns the bytes of the scores, or queries, that a step of `fresh` tokens takes until it ends,
  // if it is one that notes(). held: rows of all heads before the step.
  uint64_t score_bytes(const Shape& shape, uint64_t held, uint32_t fresh) const;
  // Returns how many of the held rows are kept because they are the newest.
  uint32_t recent(uint32_t tokens) const;
  // Returns how many of its best other rows each head keeps, however high other heads' rows score.
  uint32_t spared(uint32_t tokens) const;
};

// The option for the newest rows, which stay whatever their score.
constexpr Option half_recent_option() {
  return {.name = "recent",
          .summary =
              "newest rows that are always kept, counted in the budget: a number, or half of the "
              "budget",
          .fallback = "half"};
}
base::Status<> read_recent(const Spec& spec, const Option& option, ForgetRule& rule);

// The options for the KV heads of a layer, whether they share its rows (Ada-KV).
constexpr Option heads_option() {
  return {.name = "heads",
          .summary =
              "even: each KV head keeps the same number of rows; ada: the KV heads of a "
              "layer share its rows by score (AdaKV)",
          .fallback = "even"};
}
constexpr Option safeguard_option() {
  return {.name = "safeguard",
          .summary = "with heads=ada, share of an even part that each KV head is sure of",
          .fallback = "0.2"};
}
// Error: another value; safeguard= without heads=ada.
base::Status<> read_heads(const Spec& spec, const Option& heads, const Option& safeguard,
                          ForgetRule& rule);

// Returns traits with `endless` and `most_kept` as they are for stores with this rule.
Traits endless_traits(const ForgetRule& rule);

}  // namespace kvick::kv
