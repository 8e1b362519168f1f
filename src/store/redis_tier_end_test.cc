// What becomes of RedisTier's queues when it ends.

#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

#include "store/redis_tier.h"
#include "store/test_server.h"

#include "base/clock.h"

namespace kvick::store {
namespace {

using engine::BlockKey;
using test::Command;
using test::Scripted;
using test::TestServer;

std::vector<BlockKey> keys_of(size_t count) {
  const std::vector<engine::Token> tokens(count * engine::kBlockTokens, 7);
  std::vector<BlockKey> keys;
  for (const engine::BlockId& id : engine::block_ids(engine::prefix_root("model", ""), tokens))
    keys.push_back({id, 1000});
  return keys;
}

void keep(RedisTier& tier, const BlockKey& key) {
  tier.keep(key, [&] { return std::make_shared<const std::vector<std::byte>>(key.row_bytes); });
}

// command_seconds is so long that only the end can interrupt a command.
std::unique_ptr<RedisTier> tier_of(const TestServer& server, double closing_seconds) {
  return std::make_unique<RedisTier>(
      RedisTierOptions{.address = {.host = "127.0.0.1", .port = server.port()},
                       .command_seconds = 100,
                       .closing_seconds = closing_seconds,
                       .report = {}});
}

// The store does not answer the writer's first command before the end has begun.
TEST(RedisTierEnd, WritesTheQueuedRowsFirst) {
  for (const double closing_seconds : {100.0, 0.0}) {
    std::atomic<bool> held = true;
    TestServer server;
    server.script([&](const Command& command) -> std::optional<Scripted> {
      while (held && command[0] == "TOUCH") std::this_thread::yield();
      return std::nullopt;
    });
    auto tier = tier_of(server, closing_seconds);
    for (const BlockKey& key : keys_of(40)) keep(*tier, key);
    const auto ended = std::async(std::launch::async, [&] { tier.reset(); });
    if (closing_seconds > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    else
      ended.wait();
    held = false;
    ended.wait();
    EXPECT_EQ(server.values().size(), closing_seconds > 0 ? 40U : 0U);
  }
}

TEST(RedisTierEnd, WaitsForAStoreThatStallsNoLongerThanItMay) {
  TestServer server;
  server.script([](const Command& command) -> std::optional<Scripted> {
    if (command[0] != "TOUCH") return std::nullopt;
    return Scripted{.bytes = "", .stall = true};
  });
  const double began = base::steady_seconds();
  auto tier = tier_of(server, 0.1);
  keep(*tier, keys_of(1)[0]);
  tier.reset();
  EXPECT_EQ(server.values().size(), 0U);
  EXPECT_GE(base::steady_seconds() - began, 0.1);
  // Without rows to write it does not wait at all, though a look-up is under way.
  tier = tier_of(server, 100);
  const auto lookup = tier->look_up({keys_of(1)[0].id}, 100);
  tier.reset();
  EXPECT_TRUE(lookup->done());
  EXPECT_LT(base::steady_seconds() - began, 50);
}

}  // namespace
}  // namespace kvick::store
