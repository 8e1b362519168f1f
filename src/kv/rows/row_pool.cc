#include "kv/rows/row_pool.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace kvick::kv {

RowPool::RowPool(const Shape& shape, uint32_t together, uint32_t blocks, uint32_t window)
    : shape_(shape), together_(together), blocks_(blocks), window_(window) {
  const size_t rows = size_t{groups()} * blocks * kBlockRows;
  memory_ = make_row_block(rows * (shape.row_bytes(false) + shape.row_bytes(true)));
  notes_.resize(rows);
  history_.resize(rows * window);
  heads_.resize(size_t{shape.layers} * shape.kv_heads);
  free_.resize(groups());
  // Blocks are taken in ascending order, so that a head with a group of its own has one run of
  // rows.
  for (uint32_t group = 0; group < groups(); ++group)
    for (uint32_t block = blocks; block-- > 0;) free_[group].push_back(group * blocks + block);
}

void RowPool::prepare(uint32_t rows) {
  const size_t most = std::min<size_t>(blocks_, (size_t{rows} + kBlockRows - 1) / kBlockRows);
  for (Head& head : heads_)
    if (head.blocks.capacity() < most) head.blocks.reserve(std::min<size_t>(blocks_, 2 * most));
}

uint32_t RowPool::blocks_of(uint32_t together, uint32_t rows) {
  if (rows == 0) return 0;
  const uint32_t each = (rows + kBlockRows - 1) / kBlockRows;
  // The last block of each head may be almost empty while another head needs one for those rows.
  return together * each + (together > 1 ? together : 0);
}

uint64_t RowPool::bytes_of(const Shape& shape, uint32_t together, uint32_t blocks,
                           uint32_t window) {
  const uint64_t groups = uint64_t{shape.layers} * shape.kv_heads / together;
  return groups * blocks * kBlockRows *
         (shape.row_bytes(false) + shape.row_bytes(true) + sizeof(RowNote) +
          uint64_t{window} * sizeof(float));
}

uint64_t RowPool::held_of_all() const {
  uint64_t rows = 0;
  for (const Head& head : heads_) rows += head.rows;
  return rows;
}

uint64_t RowPool::most_of_group() const {
  uint64_t most = 0, rows = 0;
  for (size_t head = 0; head < heads_.size(); ++head) {
    rows = (head % together_ == 0 ? 0 : rows) + heads_[head].rows;
    most = std::max(most, rows);
  }
  return most;
}

void RowPool::resize(size_t head, uint32_t rows) {
  Head& one = heads_[head];
  std::vector<uint32_t>& free = free_[head / together_];
  const size_t needed = (size_t{rows} + kBlockRows - 1) / kBlockRows;
  KVICK_CHECK(needed <= one.blocks.size() + free.size(), "{} rows of a head, and {} blocks", rows,
              one.blocks.size() + free.size());
  for (; one.blocks.size() > needed; one.blocks.pop_back()) free.push_back(one.blocks.back());
  for (; one.blocks.size() < needed; free.pop_back()) one.blocks.push_back(free.back());
  one.rows = rows;
}

void RowPool::take(const RowPool& from) {
  for (size_t head = 0; head < from.heads_.size(); ++head) {
    const uint32_t rows = from.held(head);
    resize(head, rows);
    for (uint32_t first = 0; first < rows; first += kBlockRows) {
      const size_t count = std::min(kBlockRows, rows - first);
      for (const bool is_v : {false, true})
        std::memcpy(row(head, is_v, first), from.row(head, is_v, first),
                    count * shape_.row_bytes(is_v));
      std::copy_n(&from.note(head, first), count, &note(head, first));
      std::copy_n(from.history_.begin() + static_cast<ptrdiff_t>(from.place(head, first) * window_),
                  count * window_,
                  history_.begin() + static_cast<ptrdiff_t>(place(head, first) * window_));
    }
  }
}

std::span<const kernels::Run> RowPool::runs(size_t head, uint32_t first, uint32_t end, uint32_t pos,
                                            base::Arena& scratch) const {
  if (first >= end) return {};
  const std::span<kernels::Run> made =
      scratch.make<kernels::Run>((end - 1) / kBlockRows - first / kBlockRows + 1);
  size_t n = 0;
  for (uint32_t at = first; at < end;) {
    const uint32_t rows = std::min(end, (at / kBlockRows + 1) * kBlockRows) - at;
    const auto row = static_cast<uint32_t>(place(head, at));
    if (n > 0 && made[n - 1].row + made[n - 1].rows == row)
      made[n - 1].rows += rows;
    else
      made[n++] = {.row = row, .rows = rows, .pos = pos + (at - first)};
    at += rows;
  }
  return made.first(n);
}

}  // namespace kvick::kv
