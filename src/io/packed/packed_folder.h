#pragma once
// A folder of packed weights: which files are kept, and which are deleted to make room.
//
// Several processes may share a folder. A deleted file stays mapped in the processes that use it.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "io/packed/packed_file.h"
#include "io/packed/packed_writer.h"

namespace kvick::io {

struct PackedOptions {
  std::filesystem::path folder;  // created if it does not exist
  // Limit on the bytes of all files; the least recently used are deleted. 0: a quarter of the sum
  // of the disk's free bytes and the files' bytes.
  uint64_t max_bytes = 0;
  // Smaller models are not kept but packed at each start: two cores pack 256 MiB in 0.3 s.
  uint64_t least_bytes = uint64_t{256} << 20;
  // Whether find() leaves the checked data mapped in this process.
  PackedFile::After after_check = PackedFile::After::kMapped;
  // Called while a model loads, with a sentence without a line end that says what is kept, or why
  // not.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

class PackedFolder {
 public:
  explicit PackedFolder(const PackedOptions& options) : options_(options) {}

  // Returns the plan's file, fully checked, and marks it as used now. A file with wrong contents is
  // deleted and reported through `say`. One that cannot be opened or mapped is left alone. nullopt:
  // there is no usable file.
  std::optional<PackedFile> find(const PackedPlan& plan, base::ThreadPool& pool,
                                 PackedFile::Progress* progress) const;
  // Returns a writer for the file. Other files may be deleted to make room. Errors (a clause,
  // without its consequence): the file is larger than the limit or the free disk, the folder cannot
  // be written, the existing file cannot be opened or mapped, or another process is writing it.
  base::Result<PackedWriter> begin(const PackedPlan& plan) const;
  std::filesystem::path path_of(const PackedKey& key) const;

 private:
  base::Status<> make_room(uint64_t bytes) const;
  const PackedOptions& options_;
};

// A file of a folder. packed_entries() returns the most recently used one first.
struct PackedEntry {
  std::filesystem::path path;
  uint64_t bytes = 0;
  int64_t used = 0;   // nanoseconds since 1970
  std::string model;  // path of its model; empty: the file is damaged
};
std::vector<PackedEntry> packed_entries(const std::filesystem::path& folder);

}  // namespace kvick::io
