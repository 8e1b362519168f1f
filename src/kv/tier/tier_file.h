#pragma once
// A slower tier in its own file, which has no name and disappears with the process.

#include <sys/types.h>

#include "kv/tier/tier.h"

namespace kvick::kv {

// The system calls, replaceable in tests that make them fail.
struct FileCalls {
  ssize_t (*read)(int file, void* to, size_t bytes, off_t at);
  ssize_t (*write)(int file, const void* from, size_t bytes, off_t at);
  int (*allocate)(int file, int mode, off_t at, off_t bytes);
};
const FileCalls& system_file_calls();

// A file descriptor. Move-only; the destructor closes it.
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

// Updates a transfer after a system call returned `result`: bytes moved, or -errno. Returns true if
// the transfer has ended; `error` then says why it failed, or is empty. Returns false if
// `transfer`, now the rest, has to be tried again.
bool settle(Transfer& transfer, ssize_t result, std::string& error);

// Makes a tier that uses io_uring or, if the system refuses it and the options allow it, threads
// that call pread and pwrite (`calls` if given). Errors: no such folder, no files possible in it,
// or io= or direct= ask for something unavailable.
base::Result<std::unique_ptr<Tier>> make_file_tier(const TierOptions& options, size_t unit_bytes,
                                                   const FileCalls* calls = nullptr);

}  // namespace kvick::kv
