#pragma once
// A folder of prefix_file.h's files: the prefix cache's slowest tier, which outlives the process.
// Files are written and read by threads of its own, so that nobody waits for a disk. It trusts no
// file: what is missing, damaged or late is computed anew, and counted.
//
// Several processes may share a folder: names are hashes of contents, and files appear whole.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"
#include "engine/core/service_state.h"
#include "engine/prefix/prefix_file.h"

namespace kvick::engine {

struct PrefixFilesOptions {
  std::filesystem::path folder;
  uint64_t max_bytes = uint64_t{4} << 30;  // of files; those used longest ago go first
  // Of rows that wait to be written; what comes when they are more is not kept.
  uint64_t most_queued_bytes = uint64_t{256} << 20;
  // How files are read and written: the system's, or a test's. A read gives all bytes; nothing if
  // there is no file, or none of so few bytes.
  std::function<std::optional<std::string>(const std::filesystem::path&, size_t max_bytes)> read;
  std::function<bool(const std::filesystem::path&, std::string_view)> write;
  base::Clock clock = base::steady_seconds;
};

class PrefixFiles {
 public:
  // Rows that are being read. Ask from one thread.
  class Read {
   public:
    // False until all is there that will be.
    bool done() const;
    // The rows of the first files of those asked for, up to the first that is not right; after
    // done().
    const std::vector<std::string>& files() const { return files_; }
    std::span<const std::byte> rows(size_t file) const;

   private:
    friend class PrefixFiles;
    std::vector<FileId> ids_;
    size_t row_bytes_ = 0;
    std::vector<std::string> files_;  // whole, with their headers
    std::atomic<bool> done_{false}, abandoned_{false};
  };

  // Makes the folder if there is none, takes the files that it finds there for its own and removes
  // what an earlier process has left half written. Error: the folder cannot be made, read or
  // written.
  static base::Result<std::unique_ptr<PrefixFiles>> open(PrefixFilesOptions options);
  // Waits for what is being written; gives up what is queued behind it.
  ~PrefixFiles();

  // How many of these there are, from the first on.
  size_t known(std::span<const FileId> ids) const;
  // Writes rows, some time. Asks for them only if it has no such file and room for them.
  void keep(const FileId& id, size_t row_bytes,
            base::FunctionRef<std::vector<std::byte>()> make_rows);
  // Reads files, in this order.
  std::shared_ptr<Read> read(std::vector<FileId> ids, size_t row_bytes);
  // Waits until it is done, but no longer than so many seconds.
  void wait(const Read& read, double seconds);
  // Nobody waits for it any more: counts as late.
  void abandon(Read& read);
  FileCounts counts() const;
  // Seconds per byte of what was read lately; 0: nothing yet.
  double seconds_per_byte() const;
  // Waits until nothing is queued.
  void flush();

 private:
  explicit PrefixFiles(PrefixFilesOptions options);
  base::Status<> scan();
  std::optional<uint64_t> write_one(const FileId& id, std::span<const std::byte> rows) noexcept;
  void write_queued() noexcept;
  void read_queued() noexcept;
  bool try_read(Read& read, const FileId& id) noexcept;
  bool read_one(Read& read, const FileId& id);
  void enter(const FileId& id, uint64_t bytes);
  void forget(const FileId& id);
  void make_room();
  std::filesystem::path path_of(const FileId& id) const;

  PrefixFilesOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable queued_, idle_, read_;
  bool stopping_ = false, writing_ = false;
  // By last use, the oldest first.
  struct Known {
    FileId id;
    uint64_t bytes;
  };
  std::list<Known> files_;
  std::map<FileId, std::list<Known>::iterator> by_id_;
  std::deque<std::pair<FileId, std::vector<std::byte>>> writes_;
  uint64_t queued_bytes_ = 0;
  std::deque<std::shared_ptr<Read>> reads_;
  FileCounts counts_;
  double seconds_per_byte_ = 0;
  std::thread writer_, reader_;
};

}  // namespace kvick::engine
