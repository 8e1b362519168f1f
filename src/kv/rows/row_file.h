#pragma once
// Ranges of address space for the rows of sequences, in one file in memory (memfd). Because it is a
// file, a fork can map a range a second time to share its rows. Several ranges lie in one mapping,
// so many open sequences take few of the mappings that a process may have.

#include <memory>
#include <vector>

#include "kv/rows/reservation.h"

namespace kvick::kv {

class RowFile : public std::enable_shared_from_this<RowFile> {
 public:
  // One range, which keeps the file alive. Move-only; the destructor gives its pages back and frees
  // its addresses for the next range.
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
    // Gives back the pages of [offset, offset + bytes), whose ends lie on page boundaries. They
    // read as zeros from then on in every mapping, except for pages that a mapping has copied.
    void release(size_t offset, size_t bytes) const;
    // Returns a second, private mapping of the range, whose pages are copied on first write. It
    // shows later writes to this range, except in pages already copied. Its first write into a page
    // that the file lacks also creates a zero page in the file: release it.
    base::Result<Reservation> copy_on_write() const;

   private:
    friend class RowFile;
    Range(std::shared_ptr<RowFile> file, size_t index) : file_(std::move(file)), index_(index) {}
    void swap(Range& other) noexcept;
    std::shared_ptr<RowFile> file_;
    size_t index_ = 0;
  };

  // range_bytes: size of each range, a multiple of the page size. Takes nothing from the system;
  // take() does.
  static std::shared_ptr<RowFile> make(size_t range_bytes);
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  ~RowFile();

  // Returns a range of zeros, whose pages take memory when first written or read. Errors: the
  // system makes no such file, or as Reservation::make.
  base::Result<Range> take();
  // Returns the bytes of memory of all ranges, as the system counts them.
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
