#pragma once
// A folder of packed weights: which are kept, and what goes when there is no room.
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
  // Most bytes of all its files; those used longest ago are deleted. 0: a quarter of what its disk
  // has free and they take.
  uint64_t max_bytes = 0;
  // Models that take less are packed each time: two cores pack that in 0.3 s.
  uint64_t least_bytes = uint64_t{256} << 20;
  // What find() leaves of a file in this process.
  PackedFile::After after_check = PackedFile::After::kMapped;
  // Takes a sentence, without a line's end: what is kept, or why not. Called while a model loads.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

class PackedFolder {
 public:
  explicit PackedFolder(const PackedOptions& options) : options_(options) {}

  // The file of this plan, checked to the last byte and marked as used now. One that is damaged is
  // deleted, which is said. Nothing: there is none.
  std::optional<PackedFile> find(const PackedPlan& plan, base::ThreadPool& pool,
                                 PackedFile::Progress* progress) const;
  // A writer for the file, for which others may have been deleted. Error, without the reason's
  // consequence: it is larger than the limit or the disk, the folder cannot be written, another
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
