#pragma once
// Computes how many rows a policy reads. The count depends only on the policy's options and the
// number of rows, so the planner can compute it too.

#include "kv/strategy/options.h"

namespace kvick::kv {

// The options that all policies have, in this order; only their defaults differ.
inline constexpr size_t kSelectionOptions = 4;
constexpr Option budget_option(std::string_view fallback = "0.25") {
  return {.name = "budget",
          .summary = "rows that are read: a share, such as 0.25, or a number, such as 512",
          .fallback = fallback};
}
constexpr Option sinks_option(std::string_view fallback = "4") {
  return {.name = "sinks",
          .summary = "first rows that are always read, counted in the budget",
          .fallback = fallback};
}
constexpr Option recent_option(std::string_view fallback = "32") {
  return {.name = "recent",
          .summary = "newest rows that are always read, counted in the budget",
          .fallback = fallback};
}
constexpr Option dense_layers_option(std::string_view fallback = "0") {
  return {
      .name = "dense_layers", .summary = "first layers that read all rows", .fallback = fallback};
}
// Only for budgets given as a share. May stand anywhere in the options. Without this minimum a
// quarter of 100 rows is less than sinks plus recent rows, and the error stays in the rows of later
// layers: ADR 18.
constexpr Option least_option() {
  return {.name = "least",
          .summary = "fewest rows that a share amounts to; sequences of no more rows read all",
          .fallback = "128"};
}
// For policies that keep all rows. May stand anywhere in the options.
constexpr Option loss_option() {
  return {.name = "loss",
          .summary =
              "raise a sequence's budget while sampled checks find that the rows left out would "
              "have had more than this share of the attention, such as 0.02; 0: never",
          .fallback = "0"};
}

// The committed rows that are read: `take` rows of [first, last), and all rows outside that range.
struct TopRows {
  uint32_t first = 0, last = 0, take = 0;
  bool all() const { return take == last - first; }
  // Rows read in a sequence of `rows` committed rows.
  uint32_t read_rows(uint32_t rows) const { return rows - (last - first) + take; }
};

struct Selection {
  uint64_t share = 0;  // of the committed rows, in millionths; 0: `rows` is the budget
  uint32_t rows = 0;
  uint32_t least = 0;  // minimum number of rows for a share
  uint32_t sinks = 0, recent = 0, dense_layers = 0;
  uint32_t unit = 1;  // rows that are chosen together as one block
  uint32_t loss = 0;  // limit on the attention of rows left out, in millionths; 0: no limit

  // Sinks and recent rows count towards the budget and are read even if they exceed it. Only whole
  // units are chosen, so up to unit - 1 rows of the budget may remain unused.
  TopRows of(uint32_t committed) const;
  uint32_t budget(uint32_t committed) const;
  // Returns a selection whose budget is raised by half, `times` times in a row, up to all rows.
  Selection raised(uint32_t times) const;
};

// Each reads one option; read_budget also reads least=. Errors: an invalid value; least= with a
// budget that is not a share.
base::Status<> read_budget(const Spec& spec, const Option& option, Selection& selection);
base::Result<uint32_t> read_rows(const Spec& spec, const Option& option);
base::Status<> read_loss(const Spec& spec, Selection& selection);
// Reads the options that all policies have.
base::Result<Selection> read_selection(const Spec& spec,
                                       std::span<const Option, kSelectionOptions> options);

}  // namespace kvick::kv
