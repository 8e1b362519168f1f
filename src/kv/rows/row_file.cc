#include "kv/rows/row_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kvick::kv {
namespace {

// Limits of one mapping: enough ranges that mappings do not run out, few enough bytes to stay
// within a limit on address space.
constexpr size_t kMostRanges = 16;
constexpr size_t kMostBytes = size_t{64} << 30;

}  // namespace

std::shared_ptr<RowFile> RowFile::make(size_t range_bytes) {
  return std::shared_ptr<RowFile>(new RowFile(range_bytes));
}

RowFile::~RowFile() {
  if (file_ >= 0) close(file_);
}

base::Result<RowFile::Range> RowFile::take() {
  if (free_.empty()) KVICK_TRY_VOID(grow());
  const size_t index = free_.back();
  free_.pop_back();
  return Range(shared_from_this(), index);
}

base::Status<> RowFile::grow() {
  if (file_ < 0) file_ = memfd_create("kvick-rows", MFD_CLOEXEC);
  if (file_ < 0) return base::fail("the system makes no file in memory: {}", std::strerror(errno));
  const size_t count = std::clamp<size_t>(kMostBytes / range_bytes_, 1, kMostRanges);
  if (count > 1 && map_ranges(count).ok()) return base::Done{};
  return map_ranges(1);
}

base::Status<> RowFile::map_ranges(size_t count) {
  const size_t first = ranges_.size();
  const uint64_t most = INT64_MAX / range_bytes_;
  if (first + count > most) return base::fail("no file has {} bytes more", range_bytes_);
  const uint64_t end = offset(first + count);
  rlimit limit{};
  // Past this limit the system would end the process (SIGXFSZ) instead of returning an error.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && end > limit.rlim_cur)
    return base::fail("a file of {} bytes is past the limit of {}: raise it (ulimit -f)", end,
                      limit.rlim_cur);
  if (ftruncate(file_, static_cast<off_t>(end)) != 0)
    return base::fail("the system refuses a file of {} bytes in memory: {}", end,
                      std::strerror(errno));
  KVICK_TRY(
      Reservation mapped,
      Reservation::map({.file = file_, .offset = offset(first), .bytes = count * range_bytes_},
                       Writes::kShared));
  // Reserved now, so that giving a range back never allocates.
  ranges_.reserve(first + count);
  free_.reserve(first + count);
  mapped_.reserve(mapped_.size() + 1);
  for (size_t i = 0; i < count; ++i) {
    ranges_.push_back(mapped.data() + i * range_bytes_);
    free_.push_back(first + count - 1 - i);
  }
  mapped_.push_back(std::move(mapped));
  return base::Done{};
}

uint64_t RowFile::held_bytes() const {
  struct stat info {};
  constexpr uint64_t kBlock = 512;
  return file_ >= 0 && fstat(file_, &info) == 0 ? uint64_t(info.st_blocks) * kBlock : 0;
}

RowFile::Range::~Range() {
  if (file_ == nullptr) return;
  release(0, file_->range_bytes_);
  file_->free_.push_back(index_);
}

std::byte* RowFile::Range::data() const { return file_->ranges_[index_]; }

void RowFile::Range::release(size_t offset, size_t bytes) const {
  if (bytes == 0) return;
  // Fails only if the kernel lacks memory for it; then the pages stay, and held_bytes counts them.
  fallocate(file_->file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(file_->offset(index_) + offset), static_cast<off_t>(bytes));
}

base::Result<Reservation> RowFile::Range::copy_on_write() const {
  return Reservation::map(
      {.file = file_->file_, .offset = file_->offset(index_), .bytes = file_->range_bytes_},
      Writes::kPrivate);
}

void RowFile::Range::swap(Range& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(index_, other.index_);
}

}  // namespace kvick::kv
