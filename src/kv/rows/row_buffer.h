#pragma once
// A fixed number of rows of all layers and heads, in one heap allocation: keys [layer][head][row],
// then values in the same order, in the shape's types.

#include <cstring>

#include "kv/rows/row_block.h"
#include "kv/rows/segment.h"

namespace kvick::kv {

class RowBuffer {
 public:
  RowBuffer() = default;
  // Throws std::bad_alloc.
  RowBuffer(const Shape& shape, uint32_t rows)
      : shape_(shape), rows_(rows), memory_(make_row_block(bytes())) {}

  uint32_t rows() const { return rows_; }
  uint64_t bytes() const { return rows_ * shape_.token_bytes(); }

  std::byte* row(uint32_t layer, uint32_t head, bool is_v, uint32_t row) const {
    const uint64_t heads = uint64_t{shape_.layers} * shape_.kv_heads;
    const uint64_t at = (uint64_t{layer} * shape_.kv_heads + head) * rows_ + row;
    return memory_.get() + (is_v ? heads * rows_ * shape_.row_bytes(false) : 0) +
           at * shape_.row_bytes(is_v);
  }
  kernels::Segment segment(uint32_t layer, uint32_t head) const {
    return segment_of(shape_, row(layer, head, false, 0), row(layer, head, true, 0));
  }
  // Copies a row of another buffer of the same shape.
  void take(const RowBuffer& from, uint32_t from_row, uint32_t to_row) {
    for (uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (uint32_t head = 0; head < shape_.kv_heads; ++head)
        for (const bool is_v : {false, true})
          std::memcpy(row(layer, head, is_v, to_row), from.row(layer, head, is_v, from_row),
                      shape_.row_bytes(is_v));
  }

 private:
  Shape shape_;
  uint32_t rows_ = 0;
  RowBlock memory_;
};

}  // namespace kvick::kv
