#include "kv/prefix/block_pool.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <sys/mman.h>

#include "base/check.h"
#include "base/memory.h"
#include "kv/strategy/budget.h"

namespace kvick::kv {
namespace {

// Gives back the pages of [begin, begin + bytes). The first and the last page may also hold a
// neighbouring block; they are given back only if whole_first or whole_last say that it is free.
void give_pages_back(std::byte* begin, size_t bytes, bool whole_first, bool whole_last) {
  const uintptr_t page = base::page_bytes(), at = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (at + (whole_first ? 0 : page - 1)) / page * page;
  const uintptr_t last = (at + bytes + (whole_last ? page - 1 : 0)) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

// Allocates the pages of a block in one call instead of one page fault each. Kernels before 5.14
// lack MADV_POPULATE_WRITE; there the pages are allocated by faults. Returns false if memory is
// short.
bool take_pages(std::byte* begin, size_t bytes) {
#if defined(MADV_POPULATE_WRITE)
  const uintptr_t page = base::page_bytes();
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) / page * page;
  const size_t length = reinterpret_cast<uintptr_t>(begin) + bytes - first;
  if (madvise(reinterpret_cast<void*>(first), length, MADV_POPULATE_WRITE) != 0)
    return errno != ENOMEM && errno != EFAULT;
#endif
  return true;
}

}  // namespace

base::Result<BlockPool> BlockPool::make(const Setup& setup, uint32_t block_rows, Pages pages) {
  BlockPool pool;
  pool.shape_ = setup.shape;
  pool.rows_ = block_rows;
  const uint64_t stride = uint64_t{setup.shape.layers} * setup.shape.kv_heads * block_rows;
  uint64_t memory = std::min(setup.limits.max_bytes, base::available_memory_bytes());
  if (setup.limits.budget != nullptr) memory = std::min(memory, setup.limits.budget->bytes());
  const uint64_t most = std::min(memory / pool.block_bytes(), UINT32_MAX / stride);
  if (stride > UINT32_MAX || most == 0)
    return base::fail(
        "a block of {} tokens is {} bytes, of {} for the cache: give smaller blocks or more memory",
        block_rows, pool.block_bytes(), memory);
  pool.block_stride_ = static_cast<uint32_t>(stride);
  pool.most_ = static_cast<uint32_t>(most);
  KVICK_TRY(pool.k_, Reservation::make(most * stride * setup.shape.row_bytes(false), pages));
  if (setup.shape.latent) return pool;  // latent rows have no values of their own
  KVICK_TRY(pool.v_, Reservation::make(most * stride * setup.shape.row_bytes(true), pages));
  return pool;
}

std::optional<BlockId> BlockPool::take() {
  KVICK_CHECK(free() > 0, "all {} blocks are taken", most_);
  const bool again = !returned_.empty();
  const BlockId id = again ? returned_.front() : next_;
  if (!again && users_.size() == users_.capacity()) users_.reserve(2 * users_.size() + 16);
  returned_.reserve(users_.capacity());
  for (const bool is_v : {false, true}) {
    const size_t bytes = block_stride_ * shape_.row_bytes(is_v);
    if (bytes > 0 && !take_pages(row(id, 0, 0, is_v, 0), bytes)) return std::nullopt;
  }
  if (again) {
    std::pop_heap(returned_.begin(), returned_.end(), std::greater<>());
    returned_.pop_back();
    users_[id] = 1;
  } else {
    ++next_;
    users_.push_back(1);
  }
  ++taken_;
  return id;
}

void BlockPool::drop_user(BlockId id) {
  if (--users_[id] > 0) return;
  for (const bool is_v : {false, true}) {
    const size_t bytes = block_stride_ * shape_.row_bytes(is_v);
    if (bytes == 0) continue;
    const bool large = bytes >= base::page_bytes();  // a page overlaps at most two blocks
    give_pages_back(row(id, 0, 0, is_v, 0), bytes, large && (id == 0 || users_[id - 1] == 0),
                    large && (id + 1 == next_ || users_[id + 1] == 0));
  }
  returned_.push_back(id);
  std::push_heap(returned_.begin(), returned_.end(), std::greater<>());
  --taken_;
}

void BlockPool::copy_rows(BlockId from, BlockId to, uint32_t count) const {
  for (uint32_t layer = 0; layer < shape_.layers; ++layer)
    for (uint32_t head = 0; head < shape_.kv_heads; ++head)
      for (const bool is_v : {false, true})
        if (const size_t bytes = count * shape_.row_bytes(is_v); bytes > 0)
          std::memcpy(row(to, layer, head, is_v, 0), row(from, layer, head, is_v, 0), bytes);
}

}  // namespace kvick::kv
