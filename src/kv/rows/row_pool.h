#pragma once
// The remaining rows of one sequence, which may differ in number and position between heads. Heads
// with a common budget (all of them, those of a layer, or each alone) take room in blocks.
//
// Memory: [group][blocks][kBlockRows] keys, then values the same way, in the shape's types. Beside
// it a note for each row and, if the policy keeps one, a history of `window` floats.

#include <span>
#include <vector>

#include "base/memory.h"
#include "kernels/attention/view.h"
#include "kv/rows/row_block.h"
#include "kv/values/shape.h"

namespace kvick::kv {

// What the store knows of a row besides its key and value.
struct RowNote {
  uint32_t pos = 0;
  float mass = 0;  // the score that ForgetRule::noted defines
};

class RowPool {
 public:
  static constexpr uint32_t kBlockRows = 32;

  RowPool() = default;
  // Heads are numbered layer * kv_heads + head; `together` of them, one after the other, share
  // `blocks` blocks. Throws std::bad_alloc.
  RowPool(const Shape& shape, uint32_t together, uint32_t blocks, uint32_t window = 0);

  // Returns the blocks that suffice for rows * together rows in a group of `together` heads,
  // however the rows are divided among the heads.
  static uint32_t blocks_of(uint32_t together, uint32_t rows);
  // Returns the bytes of a pool with `blocks` blocks per group, notes and histories included.
  static uint64_t bytes_of(const Shape& shape, uint32_t together, uint32_t blocks,
                           uint32_t window = 0);

  uint32_t blocks() const { return blocks_; }
  uint64_t bytes() const {
    return blocks_ == 0 ? 0 : bytes_of(shape_, together_, blocks_, window_);
  }
  uint32_t held(size_t head) const { return heads_.empty() ? 0 : heads_[head].rows; }
  uint64_t held_of_all() const;
  uint64_t most_of_group() const;  // rows of the group that holds most

  // Reserves so that resize() to at most `rows` rows of a head allocates nothing. Throws bad_alloc.
  void prepare(uint32_t rows);
  // Gives the head `rows` rows; new ones are not initialised. The group's free blocks must be
  // enough, so shrink other heads of the group first. Heads of different groups may be resized from
  // different threads.
  void resize(size_t head, uint32_t rows);
  std::byte* row(size_t head, bool is_v, uint32_t row) const {
    return base(is_v) + place(head, row) * shape_.row_bytes(is_v);
  }
  RowNote& note(size_t head, uint32_t row) { return notes_[place(head, row)]; }
  const RowNote& note(size_t head, uint32_t row) const { return notes_[place(head, row)]; }
  // [window], not initialised for new rows.
  std::span<float> history(size_t head, uint32_t row) {
    return std::span(history_).subspan(place(head, row) * window_, window_);
  }
  // Copies all rows of another pool of the same shape, groups and window, which has room in this
  // one.
  void take(const RowPool& from);

  // Returns rows [first, end) of a head as the fewest runs of rows counted from base(); the first
  // row gets position `pos`.
  std::span<const kernels::Run> runs(size_t head, uint32_t first, uint32_t end, uint32_t pos,
                                     base::Arena& scratch) const;
  std::byte* base(bool is_v) const { return memory_.get() + (is_v ? key_bytes() : 0); }

 private:
  struct Head {
    uint32_t rows = 0;
    std::vector<uint32_t> blocks;  // numbers within the whole pool
  };
  uint32_t groups() const { return shape_.layers * shape_.kv_heads / together_; }
  size_t key_bytes() const {
    return size_t{groups()} * blocks_ * kBlockRows * shape_.row_bytes(false);
  }
  size_t place(size_t head, uint32_t row) const {
    return size_t{heads_[head].blocks[row / kBlockRows]} * kBlockRows + row % kBlockRows;
  }

  Shape shape_;
  uint32_t together_ = 1, blocks_ = 0, window_ = 0;
  RowBlock memory_;
  std::vector<RowNote> notes_;
  std::vector<float> history_;
  std::vector<Head> heads_;
  std::vector<std::vector<uint32_t>> free_;  // per group, the next block to take last
};

}  // namespace kvick::kv
