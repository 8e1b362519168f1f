// The writer's thread of RedisTier.

#include <algorithm>

#include "store/redis_tier.h"

namespace kvick::store {

using base::Done;
using base::Status;
using engine::BlockId;

void RedisTier::write_all() noexcept {
  std::unique_lock lock(mutex_);
  while (!stop_writing_) {
    if (!writer_link_.usable() || writes_.empty()) {
      idle_.notify_all();
      const double now = base::steady_seconds();
      const double pause = writer_link_.usable() ? 60 : writer_link_.retry_at() - now;
      if (pause > 0) {
        writes_wanted_.wait_for(lock, std::chrono::duration<double>(pause));
        continue;
      }
    }
    std::vector<Write> writes;
    std::vector<BlockId> ids;
    size_t bytes = 0;
    try {
      ids.reserve(kMostWindow);  // before the loop: an exception below would leave ids in queued_
      while (!writes_.empty() && writes.size() < kMostWindow &&
             (bytes == 0 || bytes + writes_.front().key.row_bytes <= kWindowBytes)) {
        writes.push_back(writes_.front());
        writes_.pop_front();
        bytes += writes.back().key.row_bytes;
      }
    } catch (const std::bad_alloc&) {  // the blocks taken so far are written now, the others later
    }
    writing_ = true;
    for (const Write& one : writes) ids.push_back(one.key.id);
    lock.unlock();
    try {
      if (writes.empty())
        writer_link_.try_to_connect();
      else
        write_some(std::move(writes));
    } catch (...) {
      const std::lock_guard again(mutex_);
      ++counts_.failed_writes;
    }
    lock.lock();
    writing_ = false;
    queued_bytes_ -= bytes;
    for (const BlockId& id : ids) queued_.erase(id);
    if (writer_link_.usable() && base::steady_seconds() >= full_until_) continue;
    counts_.dropped_writes += writes_.size();
    writes_.clear();
    queued_.clear();
    queued_bytes_ = 0;
  }
  idle_.notify_all();
}

// Writes the blocks that no other process has written meanwhile, and replaces bad ones.
void RedisTier::write_some(std::vector<Write> writes) {
  std::vector<Write> missing;
  const bool answered = writer_link_.run([&](RedisClient& client) -> Status<> {
    missing.clear();
    const Until by = until(0, stop_writing_);
    for (const Write& one : writes) KVICK_TRY_VOID(client.send({"TOUCH", key_of(one.key.id)}, by));
    for (const Write& one : writes) {
      KVICK_TRY(const Reply reply, client.receive(kMostReply, by));
      if (!reply.is_number(1) || is_bad(one.key.id)) missing.push_back(one);
    }
    return Done{};
  });
  const bool written =
      answered && writer_link_.run([&](RedisClient& client) { return set_all(client, missing); });
  const std::lock_guard lock(mutex_);
  if (!answered || !written) ++counts_.failed_writes;
  if (!answered) return;
  const double now = base::steady_seconds();
  for (const Write& one : writes) {
    const bool was_there = std::none_of(missing.begin(), missing.end(), [&](const Write& other) {
      return other.key.id == one.key.id;
    });
    if (was_there) note_there(one.key.id, now);
  }
}

Status<> RedisTier::set_all(RedisClient& client, std::span<const Write> writes) {
  for (const Write& one : writes) {
    const std::string value = engine::encode_block(one.key.id, *one.rows);
    const Until by = until(value.size(), stop_writing_);
    KVICK_TRY_VOID(client.send({"SET", key_of(one.key.id), value}, by));
    KVICK_TRY(const Reply reply, client.receive(kMostReply, by));
    if (!take_set(one, reply)) return Done{};
  }
  return Done{};
}

// Returns false if the store refused the write, because it is full or for another reason. It would
// refuse the next writes too.
bool RedisTier::take_set(const Write& write, const Reply& reply) {
  const double now = base::steady_seconds();
  const bool good = reply.type == Reply::Type::kText;
  if (good)
    full_.succeed();
  else
    full_.fail(now);
  full_until_ = full_.until();
  note_refusal(!good, reply.text);
  const std::lock_guard lock(mutex_);
  if (!good) {
    ++(reply.text.starts_with("OOM") ? counts_.full : counts_.failed_writes);
    return false;
  }
  ++counts_.writes;
  counts_.written_bytes += engine::block_bytes(write.key.row_bytes);
  bad_.remove(write.key.id);
  note_there(write.key.id, now);
  return true;
}

void RedisTier::note_refusal(bool refused, const std::string& why) {
  const double now = base::steady_seconds();
  if (refused) refused_at_ = now;
  if (refused == refuses_) return;
  if (!refused && now - refused_at_ < options_.refusal_seconds) return;
  refuses_ = refused;
  if (!options_.report) return;
  const std::string store = options_.address.text();
  if (!refused) return options_.report(fmt::format("the store at {} takes rows again", store));
  const bool full = why.starts_with("OOM");
  options_.report(
      fmt::format("the store at {} refuses rows, so servers find no new ones there: {}{}", store,
                  why.empty() ? "SET has no answer in words" : why.substr(0, 200),
                  full ? "; set its maxmemory-policy to allkeys-lru" : ""));
}

}  // namespace kvick::store
