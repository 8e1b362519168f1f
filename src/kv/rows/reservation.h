#pragma once
// Address space that turns into memory page by page, when it is first written.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace kvick::kv {

enum class Pages { kSystem, kHuge };

// Returns the bytes of one page: the system's page size, or 2 MiB.
size_t bytes_of(Pages pages);
// Returns whether the system makes huge pages on request; the error says why not.
base::Status<> huge_pages_work();
// Returns vm.max_map_count: the number of mappings that the system allows this process.
uint64_t most_mappings();
// Returns whether the system counts memory as used when it is reserved (vm.overcommit_memory=2).
bool promises_memory();

// Part of a file; offset and bytes are multiples of the system's page size.
struct FileRange {
  int file = -1;  // a descriptor; the reservation does not keep it
  uint64_t offset = 0;
  size_t bytes = 0;
};
// Writes into a mapping of a file go to the file (kShared), or to private copies of its pages, made
// on the first write (kPrivate).
enum class Writes { kShared, kPrivate };

// A writable range of addresses in one mapping. Move-only; the destructor gives it back.
class Reservation {
 public:
  // Reserves a private, zeroed range. Errors: the system has no such range, or allows no further
  // mapping (vm.max_map_count), or counts all of it as used (vm.overcommit_memory=2).
  static base::Result<Reservation> make(size_t bytes, Pages pages);
  // Maps part of a file in memory, in pages of the system. Errors as for make.
  static base::Result<Reservation> map(const FileRange& range, Writes writes);
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { swap(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Reservation();

  std::byte* data() const { return data_; }  // aligned to a page
  // Gives back the pages of [offset, offset + bytes), whose ends lie on page boundaries. They read
  // as zeros from then on, or as the file's content in a private mapping of a file.
  void release(size_t offset, size_t bytes) const;

 private:
  void swap(Reservation& other) noexcept;
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace kvick::kv
