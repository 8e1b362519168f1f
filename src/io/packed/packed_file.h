#pragma once
// A model's packed weights on disk, in the form in which they are mapped
// (docs/adr/0040-packed-files.md).
//
//   bytes                     little-endian
//   8    "kvickPW\n"
//   4    version of this format, 1
//   4    length of the model's path
//   16   the key
//   8    length of the file
//   8    number of pieces of the data
//   16   checksum of all above and of what follows up to the data (XXH3, 128 bits)
//   ..   the model's path when the file was written
//   8    for each piece of 4 MiB of the data: its checksum (XXH3, 64 bits, seeded with its number)
//   ..   from a multiple of 2 MiB: the matrices, each from a multiple of 64 bytes
//
// The matrices' offsets are not read from the file. They follow from the list of matrices, which
// the reader knows and which is part of the key.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace kvick::io {

inline constexpr size_t kPackedPiece = size_t{4} << 20;  // bytes of data that share a checksum
inline constexpr size_t kPackedUnit = size_t{2} << 20;   // where data may begin: a huge page

// Identifies a model's files and the weights that are packed, with their layout. From packed_key().
struct PackedKey {
  uint64_t high = 0, low = 0;
  bool operator==(const PackedKey&) const = default;
};
std::string key_text(const PackedKey& key);  // 32 hexadecimal digits

// One matrix of a packed file.
struct PackedMatrix {
  std::string name;    // everything that its bytes depend on besides the model's files
  uint64_t bytes = 0;  // at least 1
};

// The layout of a packed file with these matrices.
struct PackedPlan {
  // model: the path of the model's file or folder.
  PackedPlan(PackedKey key, std::string model, std::span<const PackedMatrix> matrices);
  PackedKey key;
  std::string model;
  std::vector<uint64_t> offsets;  // [matrices] bytes from the beginning of the data
  std::vector<uint64_t> sizes;    // [matrices] bytes
  uint64_t data_bytes = 0, pieces = 0;
  uint64_t head_bytes = 0;  // where the data begins
  uint64_t file_bytes() const { return head_bytes + data_bytes; }
};

// The head of a packed file. Its checksum has been checked.
struct PackedHead {
  PackedKey key;
  std::string model;
  uint64_t file_bytes = 0, data_begin = 0;
  std::vector<uint64_t> sums;  // [pieces] checksums
};
// image: any bytes; at least the head of a file of `file_bytes` bytes. Errors: not a packed file,
// another version, damaged, or a wrong size.
base::Result<PackedHead> parse_packed_head(std::span<const std::byte> image, uint64_t file_bytes);
// Returns the head, plan.head_bytes bytes. sums: [pieces].
std::vector<std::byte> packed_head(const PackedPlan& plan, std::span<const uint64_t> sums);
// Writes the checksum into a head. head: all bytes up to the data.
void put_head_sum(std::span<std::byte> head);
uint64_t piece_sum(std::span<const std::byte> piece, uint64_t number);

// A packed file, mapped read-only. Processes that serve the same model share its memory. While it
// is held, the file may be deleted or replaced by another, but must not be truncated. Move-only.
class PackedFile {
 public:
  // Opens the file and checks all but the data. Errors, all of wrong contents: it is no regular
  // file, those of parse_packed_head, or a key or sizes other than the plan's. Throws
  // std::bad_alloc if the system gives no memory to map it, and std::runtime_error if it cannot be
  // opened or mapped for another reason; neither says anything about the contents.
  static base::Result<PackedFile> open(const std::filesystem::path& path, const PackedPlan& plan);
  PackedFile(PackedFile&& other) noexcept { swap(other); }
  PackedFile& operator=(PackedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PackedFile();

  // Reads all data and compares its checksums: at 34 GB/s from the page cache (ADR 40). progress:
  // may be null; called by this thread with the bytes checked so far and in all. kUnmapped: checked
  // bytes are unmapped, so that the process stays small. Error: a piece that differs.
  using Progress = base::FunctionRef<void(uint64_t done, uint64_t total)>;
  enum class After { kMapped, kUnmapped };
  base::Status<> check(base::ThreadPool& pool, Progress* progress,
                       After after = After::kMapped) const;
  // The functions below take parts of the mapping, such as matrix(i) or a part of it.
  //
  // Unmaps the part's pages from this process. The system keeps them in memory if it has room, and
  // an access maps them again.
  void unmap(std::span<const std::byte> part) const;
  // Asks the system to read the part from disk if it is not in memory. Does not wait for it.
  void will_need(std::span<const std::byte> part) const;
  // Copies the part to memory without mapping it. Error: the system's, such as EIO.
  base::Status<> read(std::span<const std::byte> part, std::byte* to) const;
  // Returns matrix i of the plan.
  std::span<const std::byte> matrix(size_t i) const {
    return data().subspan(offsets_[i], sizes_[i]);
  }

 private:
  PackedFile() = default;
  void swap(PackedFile& other) noexcept;
  std::span<const std::byte> data() const { return {bytes_ + data_begin_, size_ - data_begin_}; }
  std::string path_;
  int fd_ = -1;
  std::byte* bytes_ = nullptr;
  uint64_t size_ = 0, data_begin_ = 0;
  std::vector<uint64_t> sums_, offsets_, sizes_;
};

}  // namespace kvick::io
