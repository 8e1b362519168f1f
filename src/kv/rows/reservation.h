#pragma once
// Address space that turns into memory page by page, when it is first written.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace kvick::kv {

enum class Pages { kSystem, kHuge };

// Bytes of one page: the system's, or 2 MiB.
size_t bytes_of(Pages pages);
// Whether the system makes huge pages when asked to; else why not.
base::Status<> huge_pages_work();
// vm.max_map_count: how many mappings the system lets this process have.
uint64_t most_mappings();
// vm.overcommit_memory=2: whether the system counts memory as used when it is reserved.
bool promises_memory();

// Part of a file, in whole pages of the system.
struct FileRange {
  int file = -1;  // a descriptor, which the reservation does not keep
  uint64_t offset = 0;
  size_t bytes = 0;
};
// Whether what is written into a mapping of a file goes there, or into pages that are copied from
// it when they are first written.
enum class Writes { kShared, kPrivate };

// A writable range and one mapping. Move-only; the destructor gives it all back.
class Reservation {
 public:
  // Private and zeroed. Error: the system has no such range, or no further mapping
  // (vm.max_map_count), or counts all of it as used (vm.overcommit_memory=2).
  static base::Result<Reservation> make(size_t bytes, Pages pages);
  // Of a file in memory, in pages of the system. Errors as above.
  static base::Result<Reservation> map(const FileRange& range, Writes writes);
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { swap(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Reservation();

  std::byte* data() const { return data_; }  // aligned to a page
  // Gives the pages of a range back, which begins and ends with one. It reads as zeros, or as the
  // file that it is a private mapping of.
  void release(size_t offset, size_t bytes) const;

 private:
  void swap(Reservation& other) noexcept;
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace kvick::kv
