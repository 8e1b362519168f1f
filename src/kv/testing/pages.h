#pragma once
// For tests of `virtual`: memory as counted by the kernel.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <vector>

#include "kv/rows/reservation.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {

// Returns the bytes of [data, data + bytes) that are in memory now. In a mapping of a file that
// includes all pages that the file has.
inline uint64_t resident_bytes(const std::byte* data, size_t bytes) {
  const size_t page = base::page_bytes(), pages = (bytes + page - 1) / page;
  std::vector<unsigned char> in_memory(pages);
  EXPECT_EQ(mincore(const_cast<std::byte*>(data), pages * page, in_memory.data()), 0);
  uint64_t count = 0;
  for (const unsigned char bit : in_memory) count += bit & 1;
  return count * page;
}

// Returns the bytes in memory of all regions of one sequence, as a step's views show them.
inline uint64_t resident_bytes(Step& step, const Shape& shape) {
  base::Arena scratch;
  kernels::View view;
  uint64_t bytes = 0;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      step.view({.slot = 0, .layer = layer, .head = head}, scratch, view);
      bytes += resident_bytes(view.fresh.k, shape.max_tokens * shape.row_bytes(false));
      bytes += resident_bytes(view.fresh.v, shape.max_tokens * shape.row_bytes(true));
    }
  return bytes;
}

// This process's pages in files of rows, and pages copied from them.
struct KernelPages {
  uint64_t file_bytes = 0, copied_bytes = 0;
  uint64_t all() const { return file_bytes + copied_bytes; }
};

inline KernelPages kernel_pages() {
  constexpr char kName[] = "/memfd:kvick-rows";
  KernelPages pages;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor
    if (!std::filesystem::read_symlink(entry.path(), gone).string().starts_with(kName)) continue;
    struct stat info {};
    if (stat(entry.path().c_str(), &info) == 0) pages.file_bytes += uint64_t(info.st_blocks) * 512;
  }
  std::ifstream smaps("/proc/self/smaps");
  bool rows = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ')) rows = line.find(kName) != std::string::npos;
    unsigned long long kib = 0;
    if (rows && std::sscanf(line.c_str(), "Anonymous: %llu", &kib) == 1)
      pages.copied_bytes += kib * 1024;
  }
  return pages;
}

// Fills the rest of the process's table of mappings during its lifetime.
class FullTableOfMappings {
 public:
  FullTableOfMappings() : bytes_((most_mappings() + 100) * base::page_bytes()) {
    fence_ = static_cast<std::byte*>(
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    EXPECT_NE(fence_, MAP_FAILED);
    last_.reserve(64);
    // Pages of alternating protection cannot be merged into one mapping.
    const size_t page = base::page_bytes();
    for (size_t at = 0; at < bytes_; at += 2 * page)
      if (mprotect(fence_ + at, page, PROT_READ) != 0) break;
    while (last_.size() < 64) {  // fill what mprotect left
      void* one = mmap(nullptr, page, last_.size() % 2 == 0 ? PROT_READ : PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (one == MAP_FAILED) break;
      last_.push_back(one);
    }
  }
  ~FullTableOfMappings() {
    munmap(fence_, bytes_);
    for (void* one : last_) munmap(one, base::page_bytes());
  }
  FullTableOfMappings(const FullTableOfMappings&) = delete;
  FullTableOfMappings& operator=(const FullTableOfMappings&) = delete;

  // Returns why this cannot be tried on this machine, or "".
  static std::string unavailable() {
#if defined(KVICK_SANITIZED)
    return "a sanitizer needs mappings of its own";
#else
    return most_mappings() > 300'000 ? "all mappings take too long to fill" : "";
#endif
  }

 private:
  size_t bytes_;
  std::byte* fence_;
  std::vector<void*> last_;
};

}  // namespace kvick::kv::test
