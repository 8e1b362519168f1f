#pragma once
// A folder of packed weights: which files are kept, and which are deleted when there is no room.
//
// Several processes may share a folder. A file that is deleted stays in the memory of those that
// have mapped it.

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
  std::filesystem::path folder;  // made where there is none
  // Most bytes of all its files; the least recently used are deleted. 0: a quarter of the sum of
  // the disk's free bytes and theirs.
  uint64_t max_bytes = 0;
  // Smaller models are not kept but packed at each start: two cores pack this much in 0.3 s.
  uint64_t least_bytes = uint64_t{256} << 20;
  // What find() leaves of a file in this process.
  PackedFile::After after_check = PackedFile::After::kMapped;
  // Takes a sentence, without a line's end: what is kept, or why not. Called while a model loads.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

class PackedFolder {
 public:
  explicit PackedFolder(const PackedOptions& options) : options_(options) {}

  // The file of this plan, fully checked and marked as used now. A damaged file is deleted and
  // reported through `say`. nullopt: there is none.
  std::optional<PackedFile> find(const PackedPlan& plan, base::ThreadPool& pool,
                                 PackedFile::Progress* progress) const;
  // A writer for the file; others may be deleted to make room. Error (a clause, without what
  // follows from it): larger than the limit or the disk, the folder cannot be written, another
  // process is writing it.
  base::Result<PackedWriter> begin(const PackedPlan& plan) const;
  std::filesystem::path path_of(const PackedKey& key) const;

 private:
  base::Status<> make_room(uint64_t bytes) const;
  const PackedOptions& options_;
};

// What a folder holds, the one used last first.
struct PackedEntry {
  std::filesystem::path path;
  uint64_t bytes = 0;
  int64_t used = 0;   // nanoseconds since 1970
  std::string model;  // the path of its model; empty: a damaged file
};
std::vector<PackedEntry> packed_entries(const std::filesystem::path& folder);

}  // namespace kvick::io
