#pragma once
// The quality meter of policies that leave rows in place: now and then, in one layer and head, how
// much of the attention the rows that were left out would have had, computed exactly from all rows.

#include <cstdint>
#include <optional>
#include <span>

#include "base/memory.h"
#include "kernels/attention/view.h"
#include "kernels/table/table.h"
#include "kv/strategy/selection.h"

namespace kvick::kv {

// A sequence is checked once every kTokensACheck tokens, in one layer and head that chooses rows:
// reading its keys is then 1 / (8 * layers * heads) of what full attention reads.
inline constexpr uint32_t kTokensACheck = 4;

// Which of `views` (layers * heads that choose rows) a step of `fresh` rows checks; none: it checks
// nothing. All views take turns, consecutive ones far apart, since layers differ more than heads
// do. Depends on the sequence's length alone, so the checks of a sequence do not change with the
// rest of the batch.
std::optional<uint32_t> checked_view(uint32_t committed, uint32_t fresh, uint32_t views);

// What is checked: the queries of the step's first token, and all rows that it attends to.
struct Check {
  kernels::Segment past, fresh;  // of fresh, the first row
  uint32_t count = 0;            // committed rows
  std::span<const float* const> queries;
  uint32_t head_dim = 0;
  float scale = 1, softcap = 0;  // of the logits, as in Query
  const float* sinks = nullptr;  // of each query, or null
};
// Attention probability of rows [first, last) that are not in `chosen` (ascending): 0 to 1, the
// mean over the queries.
float lost_mass(const kernels::Table& kernels, const Check& check, const TopRows& top_rows,
                std::span<const uint32_t> chosen, base::Arena& scratch);

// Adjusts one sequence's budget to the loss that its checks find: raised by a half when the mean is
// above the allowed loss, and lowered again when it is below half of that.
struct Meter {
  static constexpr uint32_t kSettled = 32;  // checks at one budget before it changes

  uint32_t level = 0;   // Selection::raised
  uint32_t checks = 0;  // at this budget
  double sum = 0;       // of what they lost

  // more: whether a higher budget would read more rows. Updates `level` for the next steps.
  void add(float lost, const Selection& selection, bool more);
};

}  // namespace kvick::kv
