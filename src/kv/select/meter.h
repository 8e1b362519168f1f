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

// A sequence is checked once in so many tokens, in one layer and head of all that choose: reading
// its keys is then 1 / (8 * layers * heads) of what full attention reads.
inline constexpr uint32_t kTokensACheck = 4;

// Which of `views` (layers * heads that choose) a step of so many fresh rows checks; none: it
// checks nothing. All come in turn, neighbours of a turn far apart, since layers differ more than
// heads do. It follows from the sequence's length alone, so that a sequence is checked alike
// whatever else is in the batch.
std::optional<uint32_t> checked_view(uint32_t committed, uint32_t fresh, uint32_t views);

// What is checked: the queries of the step's first token, and all rows that it attends to.
struct Check {
  kernels::Segment past, fresh;  // of fresh, the first row
  uint32_t count = 0;            // committed rows
  std::span<const float* const> queries;
  uint32_t head_dim = 0;
};
// The probability of rows [first, last) without `chosen`, ascending: 0 to 1, the mean over the
// queries.
float lost_mass(const kernels::Table& kernels, const Check& check, const TopRows& top_rows,
                std::span<const uint32_t> chosen, base::Arena& scratch);

// One sequence's, which holds its budget against what is lost: raised by a half where the mean is
// above the loss that is allowed, and lowered again where it is below half of that.
struct Meter {
  static constexpr uint32_t kSettled = 32;  // checks at one budget before it changes

  uint32_t level = 0;   // Selection::raised
  uint32_t checks = 0;  // at this budget
  double sum = 0;       // of what they lost

  // more: whether a higher budget would read more. Afterwards level is what it is from now on.
  void add(float lost, const Selection& selection, bool more);
};

}  // namespace kvick::kv
