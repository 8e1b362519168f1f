#pragma once
// Memory for rows, of exactly the number of bytes that a strategy's formula gives.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/memory.h"

namespace kvick::kv {

// base::Buffer would round up to 2 MiB.
struct ReleaseRowBlock {
  void operator()(std::byte* block) const {
    ::operator delete[](block, std::align_val_t{base::kCacheLine});
  }
};
using RowBlock = std::unique_ptr<std::byte[], ReleaseRowBlock>;

// Returns memory aligned to a cache line, not zeroed. Throws std::bad_alloc.
inline RowBlock make_row_block(size_t bytes) {
  if (bytes > PTRDIFF_MAX) throw std::bad_alloc();  // rounding up to the alignment could wrap
  return RowBlock(
      static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{base::kCacheLine})));
}

}  // namespace kvick::kv
