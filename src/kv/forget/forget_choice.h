#pragma once
// Chooses which rows of a group of heads a commit drops. Internal to the policies that forget rows.

#include <vector>

#include "kv/forget/forget_rule.h"
#include "kv/forget/row_pool.h"

namespace kvick::kv {

// Scratch of a commit for one group of heads that compete, reserved for the largest group's rows,
// so that commit allocates nothing.
struct ForgetChoice {
  // Head by head: the rows that it holds, then the kept rows of the step.
  std::vector<RowNote> notes;
  std::vector<uint32_t> go;  // indices of the notes to drop, ascending
  // Per head, the end of its part in `notes` and in `go`.
  struct End {
    uint32_t row = 0, go = 0;
  };
  std::vector<End> ends;
  std::vector<float> history;  // [ForgetRule::window], of a row that is not held yet
  std::vector<RowNote> sorted;
  std::vector<float> floats;  // expected_scratch(), of Noted::kExpected

  void reserve(const ForgetRule& rule, size_t rows, size_t heads);
};

// Replaces the score of each row before the window by the best, or the sum, of the scores within
// rule.pool / 2 positions. Dropped rows and the rows of the window count nothing.
void smooth(const ForgetRule& rule, uint32_t tokens, ForgetChoice& choice);
// Fills `go`: as many rows as the rule requires, among those that it allows; lowest score first,
// then oldest, then lowest head.
void give_up(const ForgetRule& rule, uint32_t tokens, ForgetChoice& choice);

}  // namespace kvick::kv
