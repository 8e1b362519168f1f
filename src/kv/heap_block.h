#pragma once
// Memory of exactly the size asked for. Not base::Buffer, which rounds up to 2 MiB: allocated bytes
// are to be what a strategy's formula says.

#include <cstddef>
#include <memory>
#include <new>

#include "base/memory.h"

namespace kvick::kv {

struct ReleaseHeapBlock {
  void operator()(std::byte* block) const {
    ::operator delete[](block, std::align_val_t{base::kCacheLine});
  }
};
using HeapBlock = std::unique_ptr<std::byte[], ReleaseHeapBlock>;

// Aligned to a cache line, not initialised. Throws std::bad_alloc.
inline HeapBlock make_heap_block(size_t bytes) {
  return HeapBlock(
      static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{base::kCacheLine})));
}

}  // namespace kvick::kv
