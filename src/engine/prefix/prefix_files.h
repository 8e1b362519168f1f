#pragma once
// A folder of files with one block (prefix_block.h) each: a tier that outlives the process. Its own
// threads write and read the files, so that no caller waits for a disk. It trusts no file: rows
// that are missing, damaged or late are computed anew, and counted.
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
#include "engine/prefix/prefix_tier.h"

namespace kvick::engine {

struct PrefixFilesOptions {
  std::filesystem::path folder;
  uint64_t max_bytes = uint64_t{4} << 30;  // of files; the least recently used are evicted first
  // Bytes of rows that may wait to be written; rows beyond this limit are dropped.
  uint64_t most_queued_bytes = uint64_t{256} << 20;
  double closing_seconds = 5;  // to write the queued rows at the end; the rest is dropped
  // How files are read, written and removed; null: by the system. Tests pass their own. `read`
  // returns the whole file, or nothing if there is none or it is longer than max_bytes.
  std::function<std::optional<std::string>(const std::filesystem::path&, size_t max_bytes)> read;
  std::function<bool(const std::filesystem::path&, std::string_view)> write;
  std::function<void(const std::filesystem::path&)> remove;
  base::Clock clock = base::steady_seconds;
};

class PrefixFiles final : public PrefixTier {
 public:
  // Makes the folder if there is none, adopts the blocks that it finds there, and removes files of
  // an earlier version and those that were left half written an hour ago or longer. Error: the
  // folder cannot be made, read or written.
  static base::Result<std::unique_ptr<PrefixFiles>> open(PrefixFilesOptions options);
  // Writes the queued rows first, for at most closing_seconds and the file then being written.
  ~PrefixFiles() override;

  size_t known(std::span<const BlockId> ids) const override;
  // Finishes at once: the list of the folder's blocks is in memory.
  std::shared_ptr<PrefixLookup> look_up(std::vector<BlockId> ids, double seconds) override;
  std::shared_ptr<PrefixRead> read(std::vector<BlockKey> keys) override;
  void abandon(PrefixRead& read) override;
  void keep(const BlockKey& key, MakeRows make_rows) override;
  double seconds_per_byte() const override;
  TierCounts counts() const override;
  void flush() override;

 private:
  explicit PrefixFiles(PrefixFilesOptions options);
  base::Status<> scan();
  std::optional<uint64_t> write_one(const BlockKey& key, const BlockRows& rows) noexcept;
  void write_queued() noexcept;
  void read_queued() noexcept;
  bool try_read(PrefixRead& read, const BlockKey& key) noexcept;
  bool read_one(PrefixRead& read, const BlockKey& key);
  void enter(const BlockId& id, uint64_t bytes);
  void forget(const BlockId& id);
  std::vector<std::filesystem::path> make_room();
  std::filesystem::path path_of(const BlockId& id) const;

  PrefixFilesOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable queued_, idle_;
  bool stopping_ = false, writing_ = false;
  double stop_by_ = 0;  // of `clock`; set with stopping_
  // The blocks whose files the writer writes and the reader reads, or removes if they are damaged.
  // They are never the same block: the reader would remove what was just written.
  std::optional<BlockId> at_write_, at_read_;
  // A file of the folder; files_ has the least recently used first.
  struct Known {
    BlockId id;
    uint64_t bytes;
  };
  std::list<Known> files_;
  std::map<BlockId, std::list<Known>::iterator> by_id_;
  std::deque<std::pair<BlockKey, BlockRows>> writes_;
  uint64_t queued_bytes_ = 0;
  std::deque<std::shared_ptr<PrefixRead>> reads_;
  TierCounts counts_;
  double seconds_per_byte_ = 0, measured_at_ = 0;
  std::thread writer_, reader_;
};

}  // namespace kvick::engine
