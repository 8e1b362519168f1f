#include "store/redis_tier.h"

#include <cmath>

#include "base/thread.h"

namespace kvick::store {
namespace {

using engine::BlockId;
using engine::BlockKey;
using engine::PrefixLookup;
using engine::PrefixRead;

// Half-life in seconds of the measured cost per byte, so that a store that was slow is tried again.
constexpr double kHalfLife = 10;

}  // namespace

RedisTier::RedisTier(RedisTierOptions options)
    : options_(std::move(options)),
      reader_link_([this] {
        LinkOptions link = link_options(stop_reading_);
        link.report = options_.report;  // the reader reports for both links
        return link;
      }()),
      writer_link_(link_options(stop_writing_)),
      full_(10 * options_.first_pause_seconds, 6 * options_.most_pause_seconds) {
  reader_link_.try_to_connect();
  reader_ = base::start_thread("a store", [this] { read_all(); });
  try {
    writer_ = base::start_thread("a store", [this] { write_all(); });
  } catch (...) {
    stop_reading_ = true;
    reads_wanted_.notify_all();
    reader_.join();
    throw;
  }
}

RedisTier::~RedisTier() {
  {
    std::unique_lock lock(mutex_);
    stop_reading_ = true;
    reads_wanted_.notify_all();
    // The writer drops what is queued if the store does not answer, so this rarely takes long.
    idle_.wait_for(lock, std::chrono::duration<double>(options_.closing_seconds),
                   [&] { return queued_.empty(); });
    stop_writing_ = true;
    writes_wanted_.notify_all();
  }
  reader_.join();
  writer_.join();
}

LinkOptions RedisTier::link_options(const std::atomic<bool>& stop) {
  return {.address = options_.address,
          .connect_seconds = options_.connect_seconds,
          .first_pause_seconds = options_.first_pause_seconds,
          .most_pause_seconds = options_.most_pause_seconds,
          .stop = &stop,
          .report = {},
          .resolve = options_.resolve};
}

std::string RedisTier::key_of(const BlockId& id) { return "kvick:1:" + id.hex(); }

Until RedisTier::until(size_t bytes, const std::atomic<bool>& stop) const {
  const double seconds =
      options_.command_seconds + static_cast<double>(bytes) / options_.least_bytes_per_second;
  return {base::steady_seconds() + seconds, &stop};
}

// Notes that the store has a value for this block. With the mutex.
void RedisTier::note_there(const BlockId& id, double now) {
  if (!bad_.contains(id, now)) recent_.add(id, now + options_.recent_seconds);
}

bool RedisTier::is_bad(const BlockId& id) const {
  const std::lock_guard lock(mutex_);
  return bad_.contains(id, base::steady_seconds());
}

// ---- the interface, called from any thread ----

size_t RedisTier::known(std::span<const BlockId> ids) const {
  const double now = base::steady_seconds();
  const std::lock_guard lock(mutex_);
  size_t n = 0;
  if (!reader_link_.usable()) return 0;
  while (n < ids.size() && recent_.contains(ids[n], now)) ++n;
  return n;
}

std::shared_ptr<PrefixLookup> RedisTier::look_up(std::vector<BlockId> ids, double seconds) {
  auto lookup = std::make_shared<PrefixLookup>(std::move(ids));
  const double now = base::steady_seconds();
  {
    const std::lock_guard lock(mutex_);
    if (reader_link_.usable() && !lookup->ids.empty()) {
      asked_.push_back({.lookup = lookup, .until = now + seconds, .at = now});
      reads_wanted_.notify_all();
      return lookup;
    }
    ++counts_.skipped;
  }
  lookup->finish();
  return lookup;
}

std::shared_ptr<PrefixRead> RedisTier::read(std::vector<BlockKey> keys) {
  auto read = std::make_shared<PrefixRead>(std::move(keys));
  {
    const std::lock_guard lock(mutex_);
    if (reader_link_.usable()) {
      readings_.push_back({.read = read});
      reads_wanted_.notify_all();
      return read;
    }
    ++counts_.skipped;
  }
  read->finish();
  return read;
}

void RedisTier::abandon(PrefixRead& read) {
  if (!read.abandon()) return;
  const std::lock_guard lock(mutex_);
  ++counts_.late;
}

void RedisTier::keep(const BlockKey& key, engine::MakeRows make_rows) {
  const double now = base::steady_seconds();
  const std::lock_guard lock(mutex_);
  if (recent_.contains(key.id, now) || queued_.contains(key.id)) return;
  if (!writer_link_.usable() || now < full_until_) {
    ++counts_.skipped;
    return;
  }
  if (queued_bytes_ + key.row_bytes > options_.most_queued_bytes) {
    ++counts_.dropped_writes;
    return;
  }
  writes_.push_back({key, make_rows()});
  queued_bytes_ += key.row_bytes;
  writes_wanted_.notify_all();
  queued_.insert(key.id);  // last: if an allocation above throws, the id must not stay, or its
                           // block would never be written
}

double RedisTier::seconds_per_byte() const {
  const std::lock_guard lock(mutex_);
  return seconds_per_byte_ * std::exp2(-(base::steady_seconds() - measured_at_) / kHalfLife);
}

engine::TierCounts RedisTier::counts() const {
  const std::lock_guard lock(mutex_);
  engine::TierCounts counts = counts_;
  counts.in_use = true;
  counts.connected = reader_link_.connected();
  counts.failures = reader_link_.failures() + writer_link_.failures();
  counts.seconds_per_byte = seconds_per_byte_;
  return counts;
}

void RedisTier::flush() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] {
    return asked_.empty() && readings_.empty() && writes_.empty() && !reading_ && !writing_;
  });
}

}  // namespace kvick::store
