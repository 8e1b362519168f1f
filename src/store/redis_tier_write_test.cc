// What RedisTier does with rows that wait to be written.

#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "store/redis_tier.h"
#include "store/test_server.h"

#include "base/clock.h"
#include "engine/prefix/test_blocks.h"

namespace kvick::store {
namespace {

using engine::BlockKey;
using test::Command;
using test::Scripted;
using test::TestServer;

std::vector<BlockKey> keys_of(size_t count) {
  return engine::test::keys_of(engine::test::made_ids(count), 1000);
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

TEST(RedisTierWrite, SaysOnceThatTheStoreRefusesRowsAndThatItTakesThemAgain) {
  TestServer server;
  server.script([](const Command& command) -> std::optional<Scripted> {
    if (command[0] != "SET") return std::nullopt;
    return Scripted{.bytes = "-OOM command not allowed when used memory > 'maxmemory'.\r\n"};
  });
  std::mutex mutex;
  std::vector<std::string> said;
  RedisTier tier({.address = {.host = "127.0.0.1", .port = server.port()},
                  .command_seconds = 100,
                  .first_pause_seconds = 0.0001,
                  .most_pause_seconds = 0.001,
                  .refusal_seconds = 0,
                  .report = [&](const std::string& what) {
                    const std::lock_guard lock(mutex);
                    said.push_back(what);
                  }});
  // Waits without a limit: a slow machine must not fail a test.
  const auto write_until = [&](const auto& done) {
    while (!done()) {
      keep(tier, keys_of(1)[0]);
      tier.flush();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  write_until([&] { return server.count("SET") >= 5; });
  {
    const std::lock_guard lock(mutex);
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(said[0], "the store at 127.0.0.1:" + std::to_string(server.port()) +
                           "/0 refuses rows, so servers find no new ones there: OOM command not "
                           "allowed when used memory > 'maxmemory'.; set its maxmemory-policy to "
                           "allkeys-lru");
  }
  server.script({});
  write_until([&] { return tier.counts().writes > 0; });
  const std::lock_guard lock(mutex);
  ASSERT_EQ(said.size(), 2U);
  EXPECT_NE(said[1].find("takes rows again"), std::string::npos) << said[1];
}

TEST(RedisTierWrite, DoesNotSayThatAStoreTakesRowsAgainThatRefusedSomeJustNow) {
  TestServer server;
  std::atomic<int> sets = 0;
  server.script([&](const Command& command) -> std::optional<Scripted> {
    if (command[0] != "SET" || ++sets % 2 == 0) return std::nullopt;
    return Scripted{.bytes = "-READONLY You can't write against a read only replica.\r\n"};
  });
  std::atomic<int> said = 0;
  {
    RedisTier tier({.address = {.host = "127.0.0.1", .port = server.port()},
                    .command_seconds = 100,
                    .first_pause_seconds = 0.0001,
                    .most_pause_seconds = 0.001,
                    .refusal_seconds = 1000,
                    .report = [&](const std::string&) { ++said; }});
    for (const auto keys = keys_of(20); tier.counts().writes < 5;)
      for (const BlockKey& key : keys) {
        keep(tier, key);
        tier.flush();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
  }
  EXPECT_GE(sets, 9);
  EXPECT_EQ(said, 1);
}

}  // namespace
}  // namespace kvick::store
