#pragma once
// Where the rows of one layer are, for layouts that keep each head's in one piece.

#include <cstddef>
#include <cstdint>

namespace kvick::kv {

// The regions of all heads' keys, then of all heads' values. A
// region of values may be smaller or larger than one of keys.
struct LayerRows {
  std::byte* data = nullptr;
  size_t k_bytes = 0, v_bytes = 0;  // of one region
  uint32_t heads = 0;

  // Region of a head, and of its values.
  std::byte* region(uint32_t head, bool is_v) const {
    return data + (is_v ? heads * k_bytes + head * v_bytes : head * k_bytes);
  }
};

}  // namespace kvick::kv
