#pragma once
// Where the rows of one layer are, for layouts that keep the rows of each head in one piece.

#include <cstddef>
#include <cstdint>

namespace kvick::kv {

// One region per head: first the keys of all heads, then the values of all heads. The two kinds may
// differ in size.
struct LayerRows {
  std::byte* data = nullptr;
  size_t k_bytes = 0, v_bytes = 0;  // of one region
  uint32_t heads = 0;

  // Returns the region of a head's keys or values.
  std::byte* region(uint32_t head, bool is_v) const {
    return data + (is_v ? heads * k_bytes + head * v_bytes : head * k_bytes);
  }
};

}  // namespace kvick::kv
