#pragma once
// A slower tier in a file of its own, which has no name and is gone with the process.

#include <sys/types.h>

#include "kv/tier/tier.h"

namespace kvick::kv {

// The system's calls, for tests that let them fail.
struct FileCalls {
  ssize_t (*read)(int file, void* to, size_t bytes, off_t at);
  ssize_t (*write)(int file, const void* from, size_t bytes, off_t at);
  int (*allocate)(int file, int mode, off_t at, off_t bytes);
};
const FileCalls& system_file_calls();

// A descriptor. Move-only; the destructor closes it.
class OpenFile {
 public:
  OpenFile() = default;
  explicit OpenFile(int file) : file_(file) {}
  OpenFile(OpenFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~OpenFile();
  int get() const { return file_; }

 private:
  int file_ = -1;
};

// What is left of a transfer once the system has answered a call with `result`: bytes, or -errno.
// True: nothing, it has ended, and `error` says whether well. False: `transfer` is what to ask for
// again.
bool settle(Transfer& transfer, ssize_t result, std::string& error);

// By io_uring or, if it is refused and options allow, by threads that call pread and pwrite
// (`calls` if given). Errors: no such folder, no files in it, what io= or direct= ask for cannot be
// had.
base::Result<std::unique_ptr<Tier>> make_file_tier(const TierOptions& options, size_t unit_bytes,
                                                   const FileCalls* calls = nullptr);

}  // namespace kvick::kv
