#pragma once
// Chooses which rows of a group of heads a commit drops. Internal to the policies that forget rows.

#include <vector>

#include "kv/forget/forget_rule.h"
#include "kv/rows/row_pool.h"

namespace kvick::kv {

inline constexpr size_t kHeadsAtOnce = 16;  // in one piece of work

// Scratch of a commit for one group of heads that compete, reserved for the largest group's rows,
// so that commit allocates nothing. Each worker that chooses has its own.
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
  uint64_t bytes = 0;         // of the above, set by reserve()

  // rows: of the largest group, with those of the step. Throws std::bad_alloc.
  void reserve(const ForgetRule& rule, const Shape& shape, uint64_t rows);
  static uint64_t bytes_of(const ForgetRule& rule, const Shape& shape, uint64_t rows);
};

// Returns how many groups of heads a worker takes at a time.
size_t groups_at_once(const ForgetRule& rule, const Shape& shape);
// Returns how many workers choose: those of the setup's pool, or one where one takes all groups.
size_t choosers(const ForgetRule& rule, const Setup& setup);

// Replaces the score of each row before the window by the best, or the sum, of the scores within
// rule.pool / 2 positions. Dropped rows and the rows of the window count nothing.
void smooth(const ForgetRule& rule, uint32_t tokens, ForgetChoice& choice);
// Fills `go`: as many rows as the rule requires, among those that it allows; lowest score first,
// then oldest, then lowest head.
void give_up(const ForgetRule& rule, uint32_t tokens, ForgetChoice& choice);

}  // namespace kvick::kv
