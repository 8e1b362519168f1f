#pragma once
// A tier keeps blocks of rows beyond memory: in a folder (prefix_files.h) or in a store that
// several processes share. It works on its own threads, and can only save time: rows that are
// missing, damaged, late or refused are computed anew, and counted. Calls come from any thread and
// wait for neither disk nor network.

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "engine/core/service_state.h"
#include "engine/prefix/prefix_block.h"

namespace kvick::engine {

// A task of a tier. The caller may drop it at any time.
class PrefixTask {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Waits until it is done, but at most `seconds`.
  void wait(double seconds) const;
  // The tier calls it, once.
  void finish();

 private:
  std::atomic<bool> done_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable finished_;
};

// Asks which of some blocks a tier has.
class PrefixLookup : public PrefixTask {
 public:
  explicit PrefixLookup(std::vector<BlockId> asked) : ids(std::move(asked)), has(ids.size()) {}
  const std::vector<BlockId> ids;
  std::vector<char> has;  // [ids]; only the tier may access it until it is done
};

struct BlockKey {
  BlockId id;
  size_t row_bytes = 0;
};

// Reads blocks from a tier.
class PrefixRead : public PrefixTask {
 public:
  explicit PrefixRead(std::vector<BlockKey> wanted)
      : keys(std::move(wanted)), blocks_(keys.size()) {}
  const std::vector<BlockKey> keys;
  // How many blocks have arrived, in the order of the keys; grows until it is done.
  size_t ready() const { return ready_.load(std::memory_order_acquire); }
  // Returns the rows of a block; block < ready().
  std::span<const std::byte> rows(size_t block) const {
    return std::as_bytes(std::span(blocks_[block])).last(keys[block].row_bytes);
  }
  // Tells the tier that nobody waits for it any more. Returns false if it was told before.
  bool abandon() { return !abandoned_.exchange(true); }
  bool abandoned() const { return abandoned_; }
  // The tier adds the next block, checked, with its header.
  void add(std::string bytes);

 private:
  std::vector<std::string> blocks_;
  std::atomic<size_t> ready_{0};
  std::atomic<bool> abandoned_{false};
};

// Shared, since several tiers may keep the same rows.
using BlockRows = std::shared_ptr<const std::vector<std::byte>>;
using MakeRows = base::FunctionRef<BlockRows()>;

class PrefixTier {
 public:
  virtual ~PrefixTier() = default;
  // Returns how many of these blocks, from the first on, it believes that it has, without a
  // look-up.
  virtual size_t known(std::span<const BlockId> ids) const = 0;
  // Asks which of these blocks it has, and again for missing ones until `seconds` have passed.
  virtual std::shared_ptr<PrefixLookup> look_up(std::vector<BlockId> ids, double seconds) = 0;
  // Reads blocks in this order, up to the first that is missing or damaged.
  virtual std::shared_ptr<PrefixRead> read(std::vector<BlockKey> keys) = 0;
  // Abandons the read: it counts as late.
  virtual void abandon(PrefixRead& read) = 0;
  // Queues rows for writing. Calls make_rows only if it lacks the block and has room in the queue.
  virtual void keep(const BlockKey& key, MakeRows make_rows) = 0;
  // Returns the seconds per byte of recent reads; 0: not known.
  virtual double seconds_per_byte() const = 0;
  virtual TierCounts counts() const = 0;
  // Waits until nothing is queued.
  virtual void flush() = 0;
};

}  // namespace kvick::engine
