// Tests a tier in a shared store while any one allocation of its threads fails: the process
// continues, and so does the store. Also tests the events of the prefix cache.

#include <gtest/gtest.h>
#include <thread>

#include "allocations.h"
#include "store/redis_tier.h"
#include "store/test_server.h"

#include "base/clock.h"
#include "engine/prefix/prefix_events.h"
#include "engine/prefix/test_blocks.h"

namespace kvick::store {
namespace {

using engine::BlockId;
using engine::BlockKey;

constexpr size_t kRowBytes = 1000;

std::vector<BlockKey> keys_of(engine::Token first) {
  return engine::test::keys_of(engine::test::made_ids(2, first), kRowBytes);
}

void wait_for(const engine::PrefixTask& task) {
  while (!task.done()) task.wait(1);
}

// Offers the blocks, looks them up and reads them. Returns whether all were read.
bool use(RedisTier& tier, const std::vector<BlockKey>& keys) {
  std::vector<BlockId> ids;
  for (const BlockKey& key : keys) {
    tier.keep(key, [] { return std::make_shared<const std::vector<std::byte>>(kRowBytes); });
    ids.push_back(key.id);
  }
  tier.flush();
  wait_for(*tier.look_up(ids, 0));
  const auto read = tier.read(keys);
  wait_for(*read);
  return read->ready() == keys.size();
}

TEST(StoreFaults, AnyAllocationMayFailAndTheStoreIsUsedAgain) {
  constexpr uint64_t kMostAllocations = 60;  // about as many as use() makes
  const faults::Spared spared;
  test::TestServer server;
  // The server's threads are spared, each from its first command.
  server.script([](const test::Command&) -> std::optional<test::Scripted> {
    thread_local const faults::Spared of_the_server;
    return std::nullopt;
  });
  RedisTier tier({.address = {.host = "127.0.0.1", .port = server.port()},
                  .command_seconds = 60,
                  .first_pause_seconds = 0.001,
                  .most_pause_seconds = 0.01,
                  .report = {}});
  const auto use_until_all_come = [&](const std::vector<BlockKey>& keys) {
    while (!use(tier, keys)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  use_until_all_come(keys_of(0));  // connects
  const uint64_t failed = faults::failed_allocations();
  for (uint64_t nth = 1; nth <= kMostAllocations; ++nth) {
    SCOPED_TRACE(nth);
    const auto keys = keys_of(static_cast<engine::Token>(1000 * nth));
    faults::fail_nth(nth);
    use(tier, keys);
    faults::fail_nth(0);
    use_until_all_come(keys);
  }
  EXPECT_GT(faults::failed_allocations() - failed, kMostAllocations / 3);
}

TEST(StoreFaults, AConnectionWithoutMemoryIsTriedAgainAfterThePause) {
  test::TestServer server;
  Link link({.address = {.host = "127.0.0.1", .port = server.port()},
             .first_pause_seconds = 3600,
             .most_pause_seconds = 3600,
             .report = {}});
  faults::fail_nth(1);
  EXPECT_FALSE(link.try_to_connect());
  faults::fail_nth(0);
  EXPECT_FALSE(link.usable());
  EXPECT_GT(link.retry_at(), base::steady_seconds());
  EXPECT_EQ(link.failures(), 1u);
}

TEST(EventFaults, AReaderWithoutMemoryIsToldAgain) {
  engine::PrefixEvents events;
  int calls = 0;
  events.on_some([&] { ++calls; });
  bool failed = false;
  faults::fail_nth(1);
  try {
    events.take();
  } catch (const std::bad_alloc&) {
    failed = true;
  }
  faults::fail_nth(0);
  EXPECT_TRUE(failed);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(events.take().size(), 1u);
}

}  // namespace
}  // namespace kvick::store
