#pragma once
// A tier of the prefix cache in Redis or Valkey, which several processes share. Each block is one
// value under the key of its id. One thread looks up and reads, another writes, each over its own
// connection, so that large writes do not delay readers. A bad store costs only time: every block
// has a checksum, every exchange has a time-out, and after a failure the store is not used for a
// pause (link.h).

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "store/link.h"
#include "store/recent_ids.h"

#include "base/clock.h"
#include "engine/prefix/prefix_tier.h"

namespace kvick::store {

struct RedisTierOptions {
  StoreAddress address;
  double connect_seconds = 1;  // the lookup of the host's name included
  // Time-out of an exchange: command_seconds + bytes / least_bytes_per_second. A slower store would
  // save no time over computing the rows.
  double command_seconds = 1;
  double least_bytes_per_second = 8e6;
  // Pauses after failures. Writes to a full store pause 10 times the first and at most 6 times the
  // longest.
  double first_pause_seconds = 0.1, most_pause_seconds = 5;
  // A store that refused writes counts as taking them again once it has refused none for this long:
  // a full one takes some in between.
  double refusal_seconds = 60;
  uint64_t most_queued_bytes = uint64_t{256} << 20;  // of rows that wait for the writer
  double closing_seconds = 5;  // to write the queued rows at the end; the rest is dropped
  // How long a block that was seen in the store is assumed to be there still.
  double recent_seconds = 60;
  // Called with one sentence when the store stops answering and when it answers again, and when it
  // refuses writes and when it takes them again. On the tier's threads, two of which may call it at
  // once.
  std::function<void(const std::string&)> report;
  base::Resolve resolve = base::resolve_by_system;
};

class RedisTier final : public engine::PrefixTier {
 public:
  // Tries to connect at once, so that a wrong address is reported early, and starts the threads
  // even if that fails.
  explicit RedisTier(RedisTierOptions options);
  // Drops queued lookups and reads. Writes the queued rows first, for at most closing_seconds. If
  // there are none, it waits for no store and no name server.
  ~RedisTier() override;

  size_t known(std::span<const engine::BlockId> ids) const override;
  std::shared_ptr<engine::PrefixLookup> look_up(std::vector<engine::BlockId> ids,
                                                double seconds) override;
  std::shared_ptr<engine::PrefixRead> read(std::vector<engine::BlockKey> keys) override;
  void abandon(engine::PrefixRead& read) override;
  void keep(const engine::BlockKey& key, engine::MakeRows make_rows) override;
  double seconds_per_byte() const override;
  engine::TierCounts counts() const override;
  void flush() override;

 private:
  // A lookup that is repeated until all its blocks are there or the time `until`. The next try is
  // at `at`; `pause` is the wait in seconds before it.
  struct Asked {
    std::shared_ptr<engine::PrefixLookup> lookup;
    double until = 0, at = 0, pause = 0;
  };
  struct Reading {
    std::shared_ptr<engine::PrefixRead> read;
    size_t next = 0;  // index into read->keys of the next block
  };
  struct Write {
    engine::BlockKey key;
    engine::BlockRows rows;
  };

  static constexpr size_t kMostReply = 4096;       // bytes of a reply that is no block
  static constexpr size_t kWindowBytes = 8 << 20;  // per exchange; one block may be larger
  static constexpr size_t kMostWindow = 16;        // blocks per exchange

  // The key contains the version of the format, 1, so that versions never read each other's blocks.
  static std::string key_of(const engine::BlockId& id);
  LinkOptions link_options(const std::atomic<bool>& stop);
  Until until(size_t bytes, const std::atomic<bool>& stop) const;
  void note_there(const engine::BlockId& id, double now);
  bool is_bad(const engine::BlockId& id) const;

  // On the reader's thread.
  void read_all() noexcept;
  double next_read_at() const;
  bool take_lookups(double now, std::vector<Asked>& due);
  void answer(std::vector<Asked>& due);
  base::Status<> touch_all(RedisClient& client, std::vector<Asked>& due);
  void settle(std::vector<Asked>& due, bool answered);
  void read_some(Reading& reading);
  base::Status<> get_some(RedisClient& client, Reading& reading, size_t end);
  bool take_block(Reading& reading, Reply reply);
  void give_up_all();

  // On the writer's thread.
  void write_all() noexcept;
  void write_some(std::vector<Write> writes);
  base::Status<> set_all(RedisClient& client, std::span<const Write> writes);
  bool take_set(const Write& write, const Reply& reply);
  void note_refusal(bool refused, const std::string& why);

  RedisTierOptions options_;
  std::atomic<bool> stop_reading_{false}, stop_writing_{false};
  mutable std::mutex mutex_;
  std::condition_variable reads_wanted_, writes_wanted_, idle_;
  std::deque<Asked> asked_;
  std::deque<Reading> readings_;
  std::deque<Write> writes_;
  std::set<engine::BlockId> queued_;  // blocks that wait to be written or are being written
  uint64_t queued_bytes_ = 0;
  bool reading_ = false, writing_ = false;
  RecentIds recent_;
  // Blocks that were missing or damaged when they were last read. They are written even if the
  // store has a value. A bad value is overwritten, never removed: another process may have replaced
  // it with a good one since it was read.
  RecentIds bad_;
  engine::TierCounts counts_;
  double seconds_per_byte_ = 0, measured_at_ = 0;
  Link reader_link_, writer_link_;
  // The writer's thread only.
  Breaker full_;  // open after the store refused a write
  bool refuses_ = false;
  double refused_at_ = 0;  // time of its last refusal
  std::atomic<double> full_until_{0};
  std::thread reader_, writer_;
};

}  // namespace kvick::store
