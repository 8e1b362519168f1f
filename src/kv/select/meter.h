#pragma once
// The quality meter of policies that leave rows in place. From time to time it computes, in one
// layer and head, how much attention the omitted rows would have had, exactly, from all rows.

#include <cstdint>
#include <optional>
#include <span>

#include "base/memory.h"
#include "kernels/attention/view.h"
#include "kernels/table/table.h"
#include "kv/strategy/selection.h"

namespace kvick::kv {

// Each sequence is checked once every kTokensACheck tokens, in one layer and head that chooses
// rows. So the checks read 1 / (8 * layers * heads) of the bytes that full attention reads.
inline constexpr uint32_t kTokensACheck = 4;

// Returns which of `views` (layers * heads that choose rows) a step of `fresh` rows checks, if any.
// All views take turns; consecutive ones are far apart, because layers differ more than heads do.
// Depends only on the sequence's length, so the rest of the batch does not change its checks.
std::optional<uint32_t> checked_view(uint32_t committed, uint32_t fresh, uint32_t views);

// Input of a check: the queries of the step's first token, and all rows that it attends to.
struct Check {
  kernels::Segment past, fresh;  // of `fresh` only the first row is used
  uint32_t count = 0;            // committed rows
  std::span<const float* const> queries;
  uint32_t head_dim = 0;
  float scale = 1, softcap = 0;  // of the logits, as in Query
  const float* sinks = nullptr;  // one per query, or null
};
// Returns the attention probability of rows [first, last) that are not in `chosen` (ascending),
// from 0 to 1: the mean over the queries.
float lost_mass(const kernels::Table& kernels, const Check& check, const TopRows& top_rows,
                std::span<const uint32_t> chosen, base::Arena& scratch);

// Adjusts one sequence's budget to the loss that its checks find. Raises it by a half if the mean
// loss is above the allowed loss, and lowers it again if the mean is below half of that.
struct Meter {
  static constexpr uint32_t kSettled = 32;  // checks at one budget before it changes

  uint32_t level = 0;   // Selection::raised
  uint32_t checks = 0;  // at this budget
  double sum = 0;       // sum of their losses

  // more: whether a higher budget would read more rows. Updates `level` for the next steps.
  void add(float lost, const Selection& selection, bool more);
};

}  // namespace kvick::kv
