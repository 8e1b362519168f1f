#pragma once
// Writes a packed file that appears whole or not at all.

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "io/packed/packed_file.h"

namespace kvick::io {

// Writes NAME.part beside the file and renames it. Locks it, so that only one of several processes
// writes; the lock ends when its process dies. Move-only; destroyed without finish(), it leaves
// nothing behind.
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

  // Appends bytes of the current matrix of the plan, or of the next once that is complete. Written
  // in pieces of 4 MiB, which file systems keep in huge pages. Error: what the system says, such as
  // a full disk.
  base::Status<> append(std::span<const std::byte> bytes, base::ThreadPool& pool);
  // Writes the head, waits until all is on the disk, and gives the file its name. KVICK_CHECKs that
  // all matrices are there.
  base::Status<> finish();

 private:
  PackedWriter(std::filesystem::path path, PackedPlan plan, int fd);
  void swap(PackedWriter& other) noexcept;
  base::Status<> write_pieces(std::span<const std::byte> bytes, base::ThreadPool& pool);
  std::filesystem::path part() const { return path_.string() + ".part"; }
  std::filesystem::path path_;
  PackedPlan plan_{{}, {}, {}};
  int fd_ = -1;
  size_t matrix_ = 0;       // index in the plan, for the next bytes
  uint64_t in_matrix_ = 0;  // bytes of it that are there
  uint64_t written_ = 0;    // bytes of data, whole pieces
  base::Buffer tail_;       // the piece that is not whole
  size_t tail_bytes_ = 0;
  std::vector<uint64_t> sums_;
};

}  // namespace kvick::io
