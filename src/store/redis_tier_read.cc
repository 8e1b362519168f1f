// The reader's thread of RedisTier: lookups and reads.

#include <algorithm>
#include <limits>

#include "store/redis_tier.h"

namespace kvick::store {
namespace {

using base::Done;
using base::Status;
using engine::BlockKey;
using engine::PrefixLookup;
using engine::PrefixRead;

constexpr size_t kMostAsked = 512;                        // ids of lookups per exchange
constexpr double kFirstPause = 0.002, kMostPause = 0.05;  // seconds between the tries of one lookup

void give_up(PrefixLookup& lookup) {
  std::fill(lookup.has.begin(), lookup.has.end(), 0);
  lookup.finish();
}

}  // namespace

// The time at which this thread has work next. With the mutex.
double RedisTier::next_read_at() const {
  double at = std::numeric_limits<double>::infinity();
  if (!readings_.empty()) return 0;
  for (const Asked& one : asked_) at = std::min(at, one.at);
  if (!reader_link_.usable()) at = std::min(at, reader_link_.retry_at());
  return at;
}

void RedisTier::read_all() noexcept {
  std::unique_lock lock(mutex_);
  while (!stop_reading_) {
    const double now = base::steady_seconds(), at = next_read_at();
    if (at > now) {
      idle_.notify_all();
      // At most a minute, because an infinite duration would overflow the clock.
      reads_wanted_.wait_for(lock, std::chrono::duration<double>(std::min(at - now, 60.0)));
      continue;
    }
    std::vector<Asked> due;
    Reading reading;
    const bool asks = take_lookups(now, due);
    if (!asks && !readings_.empty()) {
      reading = std::move(readings_.front());
      readings_.pop_front();
    }
    reading_ = true;
    lock.unlock();
    try {
      if (asks)
        answer(due);
      else if (reading.read != nullptr)
        read_some(reading);
      else
        reader_link_.try_to_connect();
    } catch (...) {  // no memory: waiting requests compute their rows instead
      for (const Asked& one : due)
        if (one.lookup != nullptr && !one.lookup->done()) give_up(*one.lookup);
      if (reading.read != nullptr && !reading.read->done()) reading.read->finish();
    }
    lock.lock();
    reading_ = false;
    if (!reader_link_.usable()) give_up_all();
  }
  give_up_all();
}

// With the mutex.
void RedisTier::give_up_all() {
  for (const Asked& one : asked_) give_up(*one.lookup);
  for (const Reading& one : readings_) one.read->finish();
  counts_.skipped += asked_.size() + readings_.size();
  asked_.clear();
  readings_.clear();
  recent_.clear();  // the store may come back empty
  idle_.notify_all();
}

bool RedisTier::take_lookups(double now, std::vector<Asked>& due) {
  size_t ids = 0;
  for (auto one = asked_.begin(); one != asked_.end() && ids < kMostAsked;) {
    if (one->at > now) {
      ++one;
      continue;
    }
    const size_t more = one->lookup->ids.size();
    try {
      due.push_back(std::move(*one));
    } catch (const std::bad_alloc&) {  // this lookup stays queued and is tried later
      break;
    }
    ids += more;
    one = asked_.erase(one);
  }
  return !due.empty();
}

void RedisTier::answer(std::vector<Asked>& due) {
  settle(due, reader_link_.run([&](RedisClient& client) { return touch_all(client, due); }));
}

// Asks with TOUCH, which also counts as a use for the store's eviction. Otherwise the store could
// evict a block that is in demand, since replicas that hold it in memory never read it.
Status<> RedisTier::touch_all(RedisClient& client, std::vector<Asked>& due) {
  std::vector<std::pair<PrefixLookup*, size_t>> all;
  for (const Asked& one : due)
    for (size_t i = 0; i < one.lookup->ids.size(); ++i) all.emplace_back(one.lookup.get(), i);
  for (size_t begin = 0; begin < all.size(); begin += kMostAsked) {
    const auto some = std::span(all).subspan(begin, std::min(kMostAsked, all.size() - begin));
    const Until end = until(0, stop_reading_);
    for (const auto& [lookup, i] : some)
      KVICK_TRY_VOID(client.send({"TOUCH", key_of(lookup->ids[i])}, end));
    for (const auto& [lookup, i] : some) {
      KVICK_TRY(const Reply reply, client.receive(kMostReply, end));
      if (reply.type != Reply::Type::kNumber)
        return base::fail("TOUCH is answered: {}", reply.text.substr(0, 200));
      lookup->has[i] = reply.number == 1 ? 1 : 0;
    }
  }
  return Done{};
}

void RedisTier::settle(std::vector<Asked>& due, bool answered) {
  const std::lock_guard lock(mutex_);
  const double now = base::steady_seconds();
  for (Asked& one : due) {
    PrefixLookup& lookup = *one.lookup;
    if (!answered) std::fill(lookup.has.begin(), lookup.has.end(), 0);
    const bool all = std::find(lookup.has.begin(), lookup.has.end(), 0) == lookup.has.end();
    one.pause = std::clamp(2 * one.pause, kFirstPause, kMostPause);
    if (answered && !all && now + one.pause < one.until) {
      one.at = now + one.pause;
      asked_.push_back(std::move(one));
      continue;
    }
    for (size_t i = 0; i < lookup.ids.size() && answered; ++i) {
      counts_.found += lookup.has[i] != 0 ? 1 : 0;
      if (lookup.has[i] != 0)
        note_there(lookup.ids[i], now);
      else
        recent_.remove(lookup.ids[i]);
    }
    lookup.finish();
  }
}

// Reads one window of blocks, then requeues the read at the front, so that due lookups come in
// between.
void RedisTier::read_some(Reading& reading) {
  PrefixRead& read = *reading.read;
  size_t end = reading.next, bytes = 0;
  while (end < read.keys.size() && end - reading.next < kMostWindow &&
         (bytes == 0 || bytes + read.keys[end].row_bytes <= kWindowBytes))
    bytes += read.keys[end++].row_bytes;
  const size_t before = read.ready();
  const bool answered = !read.abandoned() && reader_link_.run([&](RedisClient& client) {
    return get_some(client, reading, end);
  });
  const bool more = answered && read.ready() == end && end < read.keys.size();
  if (!more) {
    read.finish();
    return;
  }
  KVICK_CHECK(read.ready() > before, "a read of {} blocks gets none", read.keys.size());
  const std::lock_guard lock(mutex_);
  reading.next = end;
  readings_.push_front(std::move(reading));
}

Status<> RedisTier::get_some(RedisClient& client, Reading& reading, size_t end) {
  PrefixRead& read = *reading.read;
  // Blocks that arrived before the connection was lost are not requested again.
  const size_t begin = read.ready();
  if (begin == end) return Done{};
  size_t bytes = 0;
  for (size_t i = begin; i < end; ++i) bytes += engine::block_bytes(read.keys[i].row_bytes);
  const double began = base::steady_seconds();
  const Until by = until(bytes, stop_reading_);
  // GETRANGE limits the reply to one byte more than a block, which shows values that are too long.
  // GET could return a value of any length that another client stored.
  for (size_t i = begin; i < end; ++i)
    KVICK_TRY_VOID(client.send({"GETRANGE", key_of(read.keys[i].id), "0",
                                std::to_string(engine::block_bytes(read.keys[i].row_bytes))},
                               by));
  bool good = true;
  for (size_t i = begin; i < end; ++i) {
    KVICK_TRY(Reply reply,
              client.receive(engine::block_bytes(read.keys[i].row_bytes) + kMostReply, by));
    // Replies after a bad block are received, to keep the connection in step, but not used.
    good = good && take_block(reading, std::move(reply));
  }
  if (!good) return Done{};
  const double now = base::steady_seconds();
  const double rate = (now - began) / static_cast<double>(bytes);
  const std::lock_guard lock(mutex_);
  seconds_per_byte_ = seconds_per_byte_ == 0 ? rate : 0.75 * seconds_per_byte_ + 0.25 * rate;
  measured_at_ = now;
  return Done{};
}

// Adds the block to the read. Returns false if it is missing or damaged.
bool RedisTier::take_block(Reading& reading, Reply reply) {
  const BlockKey& key = reading.read->keys[reading.read->ready()];
  const bool text = reply.type == Reply::Type::kText;
  const auto rows =
      engine::decode_block(key.id, key.row_bytes, std::as_bytes(std::span(reply.text)));
  const std::lock_guard lock(mutex_);
  if (text && rows.ok()) {
    ++counts_.hits;
    counts_.read_bytes += reply.text.size();
    bad_.remove(key.id);
    note_there(key.id, base::steady_seconds());
    reading.read->add(std::move(reply.text));
    return true;
  }
  recent_.remove(key.id);
  // An error reply (busy, loading, command refused) says nothing about the block. WRONGTYPE does:
  // the key holds another type of value.
  if (reply.type == Reply::Type::kError && !reply.text.starts_with("WRONGTYPE")) {
    ++counts_.missing;
    return false;
  }
  // Also of another type and empty. GETRANGE answers an empty value like a missing key.
  bad_.add(key.id, std::numeric_limits<double>::infinity());
  if (text && reply.text.empty()) {
    ++counts_.missing;
    return false;
  }
  ++(text && rows.error() == engine::Damage::kTorn ? counts_.torn : counts_.foreign);
  return false;
}

}  // namespace kvick::store
