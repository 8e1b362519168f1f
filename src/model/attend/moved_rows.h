#pragma once
// Rows of tokens that now stand at another place of a text. What a query sees of a key that was
// turned by its position is their distance (RoFormer, Su et al. 2021, equation 16), so keys turn by
// as far as the tokens moved. What a token attended to is in its rows behind the first layer and
// stays: they are not the rows that the new text would have.

#include <span>
#include <string>

#include "base/thread_pool.h"
#include "kernels/table/table.h"
#include "kv/contract/kv.h"
#include "model/core/config.h"

namespace kvick::model {

// Why rows of such a model in such a store cannot be moved, as a clause; empty: they can.
std::string why_not_moved(const Config& config, const kv::StoreInfo& info);

struct Move {
  int64_t by = 0;      // places towards the end of the text
  uint32_t count = 0;  // tokens
};
// rows: those of the tokens, as kv::RowMover has them; of a model and a shape that can be moved.
void move_rows(const Config& config, const kv::Shape& shape, const Move& move,
               std::span<std::byte> rows, const kernels::Table& kernels, base::ThreadPool& pool);

}  // namespace kvick::model
