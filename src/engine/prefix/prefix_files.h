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
#include "engine/prefix/prefix_tier.h"

namespace kvick::engine {

struct PrefixFilesOptions {
  std::filesystem::path folder;
  uint64_t max_bytes = uint64_t{4} << 30;  // of files; those used longest ago go first
  // Bytes of rows that may wait to be written; rows beyond it are not kept.
  uint64_t most_queued_bytes = uint64_t{256} << 20;
  // How files are read, written and removed: the system's, or a test's. A read gives all bytes;
  // nothing if there is no file, or none of so few bytes.
  std::function<std::optional<std::string>(const std::filesystem::path&, size_t max_bytes)> read;
  std::function<bool(const std::filesystem::path&, std::string_view)> write;
  std::function<void(const std::filesystem::path&)> remove;
  base::Clock clock = base::steady_seconds;
};

class PrefixFiles final : public PrefixTier {
 public:
  // Makes the folder if there is none, takes the files that it finds there for its own and removes
  // what an earlier process has left half written, or an earlier version. Error: the folder cannot
  // be made, read or written.
  static base::Result<std::unique_ptr<PrefixFiles>> open(PrefixFilesOptions options);
  // Waits for what is being written; gives up what is queued behind it.
  ~PrefixFiles() override;

  size_t known(std::span<const BlockId> ids) const override;
  // Done at once: what is in the folder is known.
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
  // By last use, the oldest first.
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
