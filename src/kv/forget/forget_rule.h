#pragma once
// Which rows a policy that forgets keeps, and how many: from its options and the number of tokens.

#include "kv/strategy/selection.h"
#include "kv/strategy/strategy.h"
#include "kv/values/shape.h"

namespace kvick::kv {

// What is noted of a row, which says how much it counts.
enum class Noted : uint8_t {
  kNothing,    // those that stay are the newest
  kMass,       // the attention that it had, summed over steps and queries (H2O)
  kLows,       // queries of which it had less than an even share, counted down (Scissorhands)
  kPredicted,  // what a predictor says of it as it is written (KVzap)
};

// Whose rows the budget is for: each KV head has as many, or those of a layer or of the model
// compete, and heads whose rows count more keep more of them.
enum class Shared : uint8_t { kHead, kLayer, kModel };

// Which rows stay: the sinks, the newest ones, and of the others those that count most.
struct ForgetRule {
  Selection selection;
  Noted noted = Noted::kNothing;
  bool half_recent = false;  // the newest ones are half of the budget, not selection.recent
  bool rotates_sinks = false;
  // Rows are given up so many at a time, where the number of tokens is a multiple of it.
  uint32_t drop = 1;
  uint32_t history = UINT32_MAX;  // tokens before that in which attention is noted
  Shared shared = Shared::kHead;

  // The rows that stay are those of places in the cache, however long the text is: a sequence may
  // have any length if their number does not grow with it.
  bool endless() const { return rotates_sinks && selection.share == 0; }
  bool observes() const { return noted == Noted::kMass || noted == Noted::kLows; }
  // KV heads whose rows compete with each other.
  uint32_t together(const Shape& shape) const {
    if (shared == Shared::kHead) return 1;
    return shared == Shared::kLayer ? shape.kv_heads : shape.kv_heads * shape.layers;
  }
  // Rows that a sequence of so many tokens has left of each head, or on average of those that share
  // their room. It rises by one at most from one token to the next and, with drop = 1, never falls.
  uint32_t held(uint32_t tokens) const;
  // The most that it has at any number of tokens past `from`, up to `to`.
  uint32_t most_held(uint32_t from, uint32_t to) const;
  // Whether attention counts in a step after which there are so many tokens.
  bool notes(uint32_t tokens) const;
  // Of them, the newest.
  uint32_t recent(uint32_t tokens) const;
};

// The newest rows that stay whatever they count: so many, or half of the budget.
constexpr Option half_recent_option() {
  return {.name = "recent",
          .summary =
              "newest rows that are always kept, counted in the budget: a number, or half of the "
              "budget",
          .fallback = "half"};
}
base::Status<> read_recent(const Spec& spec, const Option& option, ForgetRule& rule);

// Traits::endless and most_kept of stores that forget by the rule.
Traits endless_traits(const ForgetRule& rule);

}  // namespace kvick::kv
