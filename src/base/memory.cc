#include "base/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kvick::base {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Returns the value of the first line of a /proc file that `format` matches, in bytes.
std::optional<uint64_t> read_kib(const char* path, const char* format) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return std::nullopt;
  char line[256];
  unsigned long long kib = 0;
  bool found = false;
  while (!found && std::fgets(line, sizeof line, file) != nullptr)
    found = std::sscanf(line, format, &kib) == 1;
  std::fclose(file);
  return found ? std::optional<uint64_t>(kib * 1024) : std::nullopt;
}

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePage;
  const size_t unit = huge ? kHugePage : kCacheLine;
  if (bytes > SIZE_MAX - unit) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(std::aligned_alloc(unit, round_up(bytes, unit)));
  if (data_ == nullptr) throw std::bad_alloc();
  if (huge) madvise(data_, round_up(bytes, unit), MADV_HUGEPAGE);  // advice only: failing is fine
}

Buffer::~Buffer() { std::free(data_); }

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail("cannot open {}: {}", path, std::strerror(errno));
  struct stat info {};
  MappedFile file;
  if (fstat(fd, &info) != 0) {
    const int error = errno;  // close() may change it
    ::close(fd);
    return fail("cannot look up {}: {}", path, std::strerror(error));
  }
  if (!S_ISREG(info.st_mode) || info.st_size <= 0) {
    ::close(fd);
    return fail("{} is {}", path, S_ISREG(info.st_mode) ? "empty" : "not a regular file");
  }
  void* data = mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (data == MAP_FAILED) return fail("cannot map {}: {}", path, std::strerror(error));
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = info.st_size;
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop_pages(std::span<const std::byte> part) const {
  const size_t page = page_bytes();
  const auto begin = round_up(reinterpret_cast<uintptr_t>(part.data()), page);
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void* Arena::allocate(size_t bytes) {
  bytes = round_up(std::max<size_t>(bytes, 1), kCacheLine);
  while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].size()) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    blocks_.emplace_back(std::max(bytes, block_bytes_));
    used_ = 0;
  }
  void* result = blocks_[block_].data() + used_;
  used_ += bytes;
  return result;
}

void Arena::reset() { block_ = used_ = 0; }

uint64_t peak_rss_bytes() { return read_kib("/proc/self/status", "VmHWM: %llu").value_or(0); }

// MemAvailable includes file pages, even those of mapped weights, which are read for every token.
// So this process's file pages (RssFile) are subtracted.
uint64_t available_memory_bytes() {
  const auto available = read_kib("/proc/meminfo", "MemAvailable: %llu");
  if (!available) return UINT64_MAX;
  return *available -
         std::min(*available, read_kib("/proc/self/status", "RssFile: %llu").value_or(0));
}

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace kvick::base
