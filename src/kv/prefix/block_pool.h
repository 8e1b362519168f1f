#pragma once
// Blocks of rows: each holds the keys and values of all layers and heads, for the same number of
// tokens. Two ranges of address space, one for keys and one for values, hold all blocks as
// [block][layer][head][row], so a row has the same number in both. A block takes memory from take()
// until its last user drops it.

#include <optional>
#include <vector>

#include "kv/rows/reservation.h"
#include "kv/strategy/strategy.h"

namespace kvick::kv {

using BlockId = uint32_t;

class BlockPool {
 public:
  // Reserves address space for as many blocks as the store's limit, its budget, the memory
  // available now and 32-bit row numbers allow. Errors: there is no room for one block, or the
  // system refuses.
  static base::Result<BlockPool> make(const Setup& setup, uint32_t block_rows, Pages pages);

  const Shape& shape() const { return shape_; }
  uint32_t rows() const { return rows_; }  // tokens per block
  uint64_t block_bytes() const { return rows_ * shape_.token_bytes(); }
  // Number of blocks that are taken, and of blocks that can still be taken.
  uint32_t taken() const { return taken_; }
  uint32_t free() const { return most_ - taken_; }
  BlockId highest() const { return next_; }  // all ids are lower

  // Takes a block for one user; none if the system has no more memory. Requires free() > 0. If it
  // throws std::bad_alloc, nothing has changed. Giving blocks back allocates nothing.
  std::optional<BlockId> take();
  void add_user(BlockId id) { ++users_[id]; }
  // Drops one user; the last one gives the block's memory back.
  void drop_user(BlockId id);
  uint32_t users(BlockId id) const { return users_[id]; }

  // Returns the address of row `row` of a block, in one layer and head.
  std::byte* row(BlockId id, uint32_t layer, uint32_t head, bool is_v, uint32_t row) const {
    const size_t at =
        size_t{first_row(id)} + (size_t{layer} * shape_.kv_heads + head) * rows_ + row;
    return (is_v ? v_ : k_).data() + at * shape_.row_bytes(is_v);
  }
  // Returns the address of row 0 of block 0, in one layer and head. A block's row 0 lies
  // first_row() rows after it.
  const std::byte* base(uint32_t layer, uint32_t head, bool is_v) const {
    return row(0, layer, head, is_v, 0);
  }
  uint32_t first_row(BlockId id) const { return id * block_stride_; }
  // Copies rows [0, count) of one block to another.
  void copy_rows(BlockId from, BlockId to, uint32_t count) const;

 private:
  Reservation k_, v_;
  Shape shape_;
  uint32_t rows_ = 0;
  uint32_t block_stride_ = 0;  // rows from one block to the next: layers * heads * rows_
  uint32_t most_ = 0, next_ = 0, taken_ = 0;
  std::vector<uint32_t> users_;    // per block
  std::vector<BlockId> returned_;  // a heap, lowest id first, so that blocks stay close together
};

}  // namespace kvick::kv
