#pragma once
// A file that is being downloaded into the model cache. Bytes are collected in .NAME.part beside
// it. Only a complete and verified file gets the name NAME, atomically. The process may be killed
// at any moment, and a later run can continue the part.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "cli/transfer/sha256.h"

namespace kvick::cli {

// The origin of a part's bytes, kept beside it in .NAME.part.json. A later run may append only
// bytes of the version that this describes.
struct Origin {
  std::string url;
  // For If-Range: a strong ETag or a modification date; empty: never continue.
  std::string validator;
  uint64_t total = 0;  // bytes of the whole file; 0: not known

  bool operator==(const Origin&) const = default;
};

// Holds an exclusive lock across processes from open() to its destruction. Member functions throw
// Failure if the disk fails, with the free space if it is full.
class PartFile {
 public:
  // Creates the folders. If another process holds the part, calls waiting() once and waits for it;
  // the target may be complete then.
  static PartFile open(const std::filesystem::path& target, base::FunctionRef<void()> waiting);
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;
  ~PartFile();  // keeps a part with bytes and a known origin for the next run, else removes it

  const std::filesystem::path& target() const { return target_; }
  uint64_t size() const { return size_; }
  uint64_t inherited() const { return inherited_; }  // bytes from earlier runs
  std::optional<Origin> origin() const;
  void set_origin(const Origin& origin);

  void append(std::span<const std::byte> bytes);
  void clear();  // makes the part empty, without an origin
  // Returns the first bytes, at most `count`.
  std::string head(size_t count) const;
  // Returns the SHA-256 of all bytes, including those of earlier runs.
  std::string sha256();

  // Flushes the part to disk and renames it to the target, replacing an existing file. No other
  // function may be called afterwards.
  void install();

 private:
  PartFile(std::filesystem::path target, std::filesystem::path part, int fd);
  void hash_what_is_there();

  std::filesystem::path target_, part_, origin_;
  int fd_ = -1;
  uint64_t size_ = 0, inherited_ = 0;
  std::optional<Sha256> hash_;  // of all bytes; empty until those of earlier runs have been read
};

// Returns the bytes that this user may still write on the disk of `path`, or of its nearest
// existing parent.
uint64_t free_bytes(const std::filesystem::path& path);

}  // namespace kvick::cli
