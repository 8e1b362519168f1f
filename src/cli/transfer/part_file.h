#pragma once
// A file on its way into the model cache: bytes gather in .NAME.part beside it, and only a complete
// and verified file gets the name NAME, atomically. It may be killed at any moment; what is there
// then can be continued.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "cli/transfer/sha256.h"

namespace kvick::cli {

// Where the bytes of a part come from, kept beside it in .NAME.part.json: a later run may only
// append to them what the server says belongs to the same version.
struct Origin {
  std::string url;
  std::string validator;  // a strong ETag or a modification date, as If-Range takes it; empty:
                          // never continue
  uint64_t total = 0;     // bytes of the whole file; 0: not known

  bool operator==(const Origin&) const = default;
};

// Holds an exclusive lock from open() to its end, across processes. Member functions throw Failure
// where the disk does not do its part, with the disk's free space when it is full.
class PartFile {
 public:
  // Makes the folders. If another process has the part, calls waiting() once and waits for its end:
  // the target may be complete then.
  static PartFile open(const std::filesystem::path& target, base::FunctionRef<void()> waiting);
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;
  ~PartFile();  // stays for the next run if there are bytes and their origin is known, else is
                // removed

  const std::filesystem::path& target() const { return target_; }
  uint64_t size() const { return size_; }
  uint64_t inherited() const { return inherited_; }  // bytes of earlier runs that are still in it
  std::optional<Origin> origin() const;
  void set_origin(const Origin& origin);

  void append(std::span<const std::byte> bytes);
  void clear();  // to an empty part of no origin
  // The first bytes, at most `count`.
  std::string head(size_t count) const;
  // Of all bytes, those of earlier runs too.
  std::string sha256();

  // Flushes to the disk and gives it the target's name, in place of what may be there. Nothing else
  // may be called then.
  void install();

 private:
  PartFile(std::filesystem::path target, std::filesystem::path part, int fd);
  void hash_what_is_there();

  std::filesystem::path target_, part_, origin_;
  int fd_ = -1;
  uint64_t size_ = 0, inherited_ = 0;
  std::optional<Sha256> hash_;  // of all bytes; absent until an earlier run's bytes have been read
};

// Bytes that this user may still write on the disk that holds `path`, or its nearest existing
// parent.
uint64_t free_bytes(const std::filesystem::path& path);

}  // namespace kvick::cli
