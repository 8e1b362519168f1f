#pragma once
// Memory held by move-only objects: aligned heap blocks, read-only file mappings, bump arenas.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvick::base {

inline constexpr size_t kCacheLine = 64;

// Heap bytes aligned to a cache line. Buffers of at least 2 MiB are aligned to 2 MiB, and huge
// pages are advised for them. Contents: zero in pages fresh from the kernel, otherwise undefined.
// Throws std::bad_alloc.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A whole file mapped read-only. The file must not shrink while it is mapped: reading beyond its
// new end raises SIGBUS.
class MappedFile {
 public:
  // Errors: no such file, not a regular file, no permission, empty.
  static Result<MappedFile> open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Gives the pages back to the system, which reads them from the file again when they are touched.
  void drop_pages(std::span<const std::byte> part) const;

 private:
  void swap(MappedFile& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A bump allocator for scratch that lives as long as one step of work. reset() keeps the blocks, so
// a hot loop allocates nothing after its first iteration. For one thread.
class Arena {
 public:
  explicit Arena(size_t block_bytes = 64 << 10) : block_bytes_(block_bytes) {}

  // Returns `count` elements, aligned to a cache line, not initialised, valid until reset(). T must
  // be trivially destructible.
  template <typename T>
  std::span<T> make(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    return {static_cast<T*>(allocate(count * sizeof(T))), count};
  }
  void reset();

 private:
  void* allocate(size_t bytes);
  size_t block_bytes_;
  std::vector<Buffer> blocks_;
  size_t block_ = 0, used_ = 0;
};

// Returns the peak resident set of this process since its start, in bytes (VmHWM).
uint64_t peak_rss_bytes();
// Returns the bytes that can be allocated without swapping (MemAvailable) and without evicting
// pages of the files that this process has mapped. Returns UINT64_MAX if the system does not say.
uint64_t available_memory_bytes();
// Returns the system's page size in bytes.
size_t page_bytes();

}  // namespace kvick::base
