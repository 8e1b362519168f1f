#pragma once
// Writes a packed file, which appears complete or not at all.

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "io/packed/packed_file.h"

namespace kvick::io {

// Writes NAME.part beside the file, then renames it. A lock on the part ensures that only one
// process writes it; the lock ends with its process. Move-only. If destroyed without finish(), it
// deletes the part.
class PackedWriter {
 public:
  // Errors: the folder cannot be written, or another process is writing the same file.
  static base::Result<PackedWriter> create(std::filesystem::path path, PackedPlan plan);
  PackedWriter(PackedWriter&& other) noexcept { swap(other); }
  PackedWriter& operator=(PackedWriter&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PackedWriter();

  // Appends bytes to the current matrix of the plan, or to the next one once that is complete. The
  // file is written in pieces of 4 MiB, which file systems keep in huge pages. Error: the system's,
  // such as a full disk.
  base::Status<> append(std::span<const std::byte> bytes, base::ThreadPool& pool);
  // Writes the head, waits until everything is on disk, and renames the file. All matrices must be
  // complete (KVICK_CHECK).
  base::Status<> finish();

 private:
  PackedWriter(std::filesystem::path path, PackedPlan plan, int fd);
  void swap(PackedWriter& other) noexcept;
  base::Status<> write_pieces(std::span<const std::byte> bytes, base::ThreadPool& pool);
  std::filesystem::path part() const { return path_.string() + ".part"; }
  std::filesystem::path path_;
  PackedPlan plan_{{}, {}, {}};
  int fd_ = -1;
  size_t matrix_ = 0;       // index in the plan of the matrix that gets the next bytes
  uint64_t in_matrix_ = 0;  // bytes of that matrix written so far
  uint64_t written_ = 0;    // bytes of data in the file; whole pieces
  base::Buffer tail_;       // the last piece, which is not complete yet
  size_t tail_bytes_ = 0;
  std::vector<uint64_t> sums_;
};

}  // namespace kvick::io
