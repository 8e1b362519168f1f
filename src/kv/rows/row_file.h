#pragma once
// Ranges of address space for the rows of sequences, in one file in memory (memfd), so that a range
// can be mapped a second time by who shares its rows. Several ranges lie in one mapping: opening
// many sequences takes few of the mappings that a process may have.

#include <memory>
#include <vector>

#include "kv/rows/reservation.h"

namespace kvick::kv {

class RowFile : public std::enable_shared_from_this<RowFile> {
 public:
  // One range; it keeps the file. Move-only; the destructor gives its pages back, and its addresses
  // to the next one.
  class Range {
   public:
    Range() = default;
    Range(Range&& other) noexcept { swap(other); }
    Range& operator=(Range&& other) noexcept {
      swap(other);
      return *this;
    }
    ~Range();

    std::byte* data() const;
    // Pages of [offset, offset + bytes), which begins and ends with one, go back and read as zeros
    // from now on, in every mapping but where it has pages of its own.
    void release(size_t offset, size_t bytes) const;
    // A private second mapping of the rows, whose pages are copied on first write. Later writes to
    // this range show in it, except in pages already copied. The first write into a page that the
    // file lacks also creates a zero page in the file: release it.
    base::Result<Reservation> copy_on_write() const;

   private:
    friend class RowFile;
    Range(std::shared_ptr<RowFile> file, size_t index) : file_(std::move(file)), index_(index) {}
    void swap(Range& other) noexcept;
    std::shared_ptr<RowFile> file_;
    size_t index_ = 0;
  };

  // range_bytes: size of each range, whole pages. Takes nothing from the system: take() does.
  static std::shared_ptr<RowFile> make(size_t range_bytes);
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  ~RowFile();

  // Zeros, which become memory when they are written, and also when they are read. Errors: the
  // system makes no such file, or as Reservation::make.
  base::Result<Range> take();
  // Memory of all ranges, as the system counts it.
  uint64_t held_bytes() const;
  uint64_t mappings() const { return mapped_.size(); }

 private:
  explicit RowFile(size_t range_bytes) : range_bytes_(range_bytes) {}
  base::Status<> grow();
  base::Status<> map_ranges(size_t count);
  uint64_t offset(size_t index) const { return uint64_t{index} * range_bytes_; }

  size_t range_bytes_;
  int file_ = -1;
  std::vector<Reservation> mapped_;
  std::vector<std::byte*> ranges_;  // where each begins
  std::vector<size_t> free_;
};

}  // namespace kvick::kv
