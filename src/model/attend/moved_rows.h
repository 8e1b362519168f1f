#pragma once
// Moves cached rows to another position of a text. With rotary embedding a query sees only its
// distance to a key (RoFormer, Su et al. 2021, equation 16), so keys are rotated by the distance
// moved. Beyond the first layer, rows also depend on the tokens that were attended to. That part
// stays as it was, so moved rows differ from the rows that the new text would have.

#include <span>
#include <string>

#include "base/thread_pool.h"
#include "kernels/table/table.h"
#include "kv/contract/kv.h"
#include "model/core/config.h"

namespace kvick::model {

// Returns why this model's rows in this store cannot be moved, as a clause; empty: they can.
std::string why_not_moved(const Config& config, const kv::StoreInfo& info);

struct Move {
  int64_t by = 0;      // distance in positions, positive towards the end of the text
  uint32_t count = 0;  // tokens
};
// Rotates the keys in `rows`, in the layout of kv::RowMover, in place. Call it only if
// why_not_moved() is empty.
void move_rows(const Config& config, const kv::Shape& shape, const Move& move,
               std::span<std::byte> rows, const kernels::Table& kernels, base::ThreadPool& pool);

}  // namespace kvick::model
