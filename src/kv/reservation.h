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

// A private, zeroed, writable range. Move-only; the destructor gives it all back.
class Reservation {
 public:
  // Error: the system has no such range, or no further mapping (vm.max_map_count), or counts all of
  // it as used (vm.overcommit_memory=2).
  static base::Result<Reservation> make(size_t bytes, Pages pages);
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { swap(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Reservation();

  std::byte* data() const { return data_; }  // aligned to a page

 private:
  void swap(Reservation& other) noexcept;
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace kvick::kv
