#include "store/redis_tier.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

#include "store/test_server.h"

#include "engine/prefix/test_blocks.h"

namespace kvick::store {
namespace {

using engine::BlockId;
using engine::BlockKey;
using engine::PrefixLookup;
using engine::PrefixRead;
using test::Command;
using test::Scripted;
using test::TestServer;

constexpr size_t kRowBytes = 300'000;  // more than the client's buffer (256 KiB)

std::vector<BlockKey> keys_of(size_t count, engine::Token first = 0, size_t row_bytes = kRowBytes) {
  return engine::test::keys_of(engine::test::made_ids(count, first), row_bytes);
}

std::vector<BlockId> ids_of(const std::vector<BlockKey>& keys) {
  std::vector<BlockId> ids;
  for (const BlockKey& key : keys) ids.push_back(key.id);
  return ids;
}

std::vector<std::byte> rows_of(size_t seed, size_t bytes = kRowBytes) {
  return engine::test::made_rows(seed, bytes);
}

// Waits without a limit: a slow machine must not fail a test, whose own time-out ends a hang.
template <typename Condition>
void wait_for(const Condition& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class RedisTierTest : public testing::Test {
 protected:
  RedisTierOptions options() {
    return {.address = {.host = "127.0.0.1", .port = server_.port()},
            .command_seconds = 10,
            .first_pause_seconds = 0.001,
            .most_pause_seconds = 0.01,
            .report = {}};
  }
  std::shared_ptr<PrefixRead> read_all(RedisTier& tier, const std::vector<BlockKey>& keys) {
    auto read = tier.read(keys);
    wait_for([&] { return read->done(); });
    return read;
  }
  std::shared_ptr<PrefixLookup> look_up(RedisTier& tier, const std::vector<BlockKey>& keys,
                                        double seconds = 0) {
    auto lookup = tier.look_up(ids_of(keys), seconds);
    wait_for([&] { return lookup->done(); });
    return lookup;
  }
  void put(RedisTier& tier, const BlockKey& key, size_t seed) {
    tier.keep(key, [&] {
      ++made_;
      return std::make_shared<const std::vector<std::byte>>(rows_of(seed, key.row_bytes));
    });
  }
  void put_all(RedisTier& tier, const std::vector<BlockKey>& keys) {
    for (size_t i = 0; i < keys.size(); ++i) put(tier, keys[i], i);
    tier.flush();
  }
  // Repeats until the store answers and returns all blocks. Damaged blocks are replaced on the way.
  void expect_all(RedisTier& tier, const std::vector<BlockKey>& keys) {
    std::shared_ptr<PrefixRead> read;
    wait_for([&] {
      look_up(tier, keys);
      put_all(tier, keys);
      return (read = read_all(tier, keys))->ready() == keys.size();
    });
    for (size_t i = 0; i < keys.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(read->rows(i), rows_of(i, keys[i].row_bytes)));
  }
  // Answers the first `times` commands of this name with `answer`.
  void script(const std::string& name, Scripted answer, size_t times = 1) {
    server_.script([=](const Command& command) mutable -> std::optional<Scripted> {
      if (command[0] != name || times == 0) return std::nullopt;
      --times;
      return answer;
    });
  }

  TestServer server_;
  size_t made_ = 0;
};

TEST_F(RedisTierTest, GivesOneProcessWhatAnotherHasWritten) {
  const auto keys = keys_of(40);
  RedisTier one(options()), two(options());
  EXPECT_EQ(one.known(ids_of(keys)), 0u);
  put_all(one, keys);
  EXPECT_EQ(one.known(ids_of(keys)), 40u);
  EXPECT_EQ(two.known(ids_of(keys)), 0u);
  const auto lookup = look_up(two, keys);
  EXPECT_EQ(std::count(lookup->has.begin(), lookup->has.end(), 1), 40);
  expect_all(two, keys);
  EXPECT_EQ(two.counts().hits, 40u);
  EXPECT_EQ(one.counts().writes, 40u);
  EXPECT_EQ(two.counts().read_bytes, 40 * engine::block_bytes(kRowBytes));
  EXPECT_GT(two.seconds_per_byte(), 0);
  EXPECT_EQ(look_up(two, keys_of(1, 7))->has[0], 0);
}

TEST_F(RedisTierTest, WritesNothingTwice) {
  const auto keys = keys_of(3);
  RedisTier one(options()), two(options());
  put_all(one, keys);
  put_all(one, keys);
  EXPECT_EQ(made_, 3u) << "rows of a block that is known to be there are not even read";
  put_all(two, keys);
  EXPECT_EQ(server_.count("SET"), 3u);
}

TEST_F(RedisTierTest, AsksAgainForBlocksThatAreOnTheirWay) {
  const auto keys = keys_of(2);
  RedisTier one(options()), two(options());
  const auto lookup = two.look_up(ids_of(keys), 60);
  wait_for([&] { return server_.count("TOUCH") > 4; });
  EXPECT_FALSE(lookup->done());
  put_all(one, keys);
  wait_for([&] { return lookup->done(); });
  EXPECT_EQ(lookup->has, std::vector<char>(2, 1));
  EXPECT_EQ(look_up(two, keys_of(1, 9), 0.01)->has[0], 0);
}

TEST_F(RedisTierTest, TakesNoValueThatIsNotRightAndReplacesIt) {
  const auto keys = keys_of(2);
  RedisTier tier(options());
  std::mt19937 random(3);
  using Values = std::map<std::string, std::string>;
  const std::vector<std::function<void(std::string&)>> damages = {
      [&](std::string& value) { value[random() % value.size()] ^= 1; },
      [&](std::string& value) { value.resize(1 + random() % (value.size() - 1)); },
      [](std::string& value) { value += 'x'; },
      [](std::string& value) { value += std::string(1 << 20, 'x'); },
      [](std::string& value) { value = "something else"; }};
  for (const auto& damage : damages) {
    expect_all(tier, keys);
    server_.change_values([&](Values& values) {
      for (auto& [key, value] : values) damage(value);
    });
    const uint64_t torn = tier.counts().torn;
    EXPECT_EQ(read_all(tier, keys)->ready(), 0u);
    EXPECT_EQ(tier.counts().torn, torn + 1);
    expect_all(tier, keys);
    EXPECT_EQ(tier.counts().torn, torn + 2) << "once for each block";
    server_.change_values([](Values& values) { values.clear(); });
    EXPECT_EQ(read_all(tier, keys)->ready(), 0u);
  }
  EXPECT_EQ(tier.counts().missing, damages.size());
  expect_all(tier, keys);
  server_.change_values([](Values& values) {
    for (auto& [key, value] : values) value.clear();
  });
  EXPECT_EQ(read_all(tier, keys)->ready(), 0u);
  // A sound block under another block's id, then a block of another size.
  expect_all(tier, keys);
  server_.change_values([](Values& values) { values.begin()->second = values.rbegin()->second; });
  EXPECT_LT(read_all(tier, keys)->ready(), 2u);
  EXPECT_EQ(tier.counts().foreign, 1u);
  expect_all(tier, keys);
  EXPECT_EQ(read_all(tier, keys_of(2, 0, kRowBytes / 2))->ready(), 0u);
  EXPECT_EQ(tier.counts().failures, 0u) << "the connection is as good as before";
}

TEST_F(RedisTierTest, ComesBackAfterEveryWrongAnswer) {
  const auto keys = keys_of(3);
  RedisTier tier(options());
  put_all(tier, keys);
  const Scripted answers[] = {
      {.bytes = "", .close = true},
      {.bytes = "$100\r\nhalf", .close = true},
      {.bytes = "$99999999999999\r\nx", .close = true},
      {.bytes = "$-7\r\n"},
      {.bytes = "*2147483647\r\n"},
      {.bytes = "*2\r\n:1\r\n:1\r\n"},
      {.bytes = "HTTP/1.1 400 Bad Request\r\n\r\n"},
      {.bytes = std::string(70000, '\0')},
      {.bytes = ":1\r\n"},
      {.bytes = "+OK\r\n"},
      {.bytes = "#t\r\n"},
      {.bytes = ",1.5\r\n"},
      {.bytes = "-LOADING Redis is loading the dataset in memory\r\n"},
      {.bytes = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
      {.bytes = "$3\r\nabcdefgh"}};
  for (const char* name : {"GETRANGE", "TOUCH", "SET"})
    for (const Scripted& answer : answers) {
      SCOPED_TRACE(std::string(name) + " is answered by " + answer.bytes.substr(0, 40));
      script(name, answer, 2);
      read_all(tier, keys);
      look_up(tier, keys);
      const auto more = keys_of(1, static_cast<engine::Token>(1000 + made_));
      put(tier, more[0], 0);
      tier.flush();
      server_.script({});
      expect_all(tier, keys);
    }
}

TEST_F(RedisTierTest, ReplacesNoBlockThatTheStoreRefusesToRead) {
  const auto keys = keys_of(2);
  RedisTier tier(options());
  put_all(tier, keys);
  for (const char* refusal : {"-NOPERM this user has no permissions to run 'getrange'\r\n",
                              "-BUSY Redis is busy running a script\r\n"}) {
    script("GETRANGE", {.bytes = refusal}, 2);
    EXPECT_EQ(read_all(tier, keys)->ready(), 0u);
  }
  put_all(tier, keys);
  EXPECT_EQ(server_.count("SET"), 2u);
  EXPECT_EQ(tier.counts().foreign, 0u);
  EXPECT_EQ(read_all(tier, keys)->ready(), 2u);
}

TEST_F(RedisTierTest, LeavesABlockThatAnotherProcessWritesJustAfterItWasMissed) {
  const auto keys = keys_of(1);
  RedisTier writer(options()), reader(options());
  put_all(writer, keys);
  // The reader's command arrived before the block.
  script("GETRANGE", {.bytes = "$0\r\n\r\n"}, 1);
  EXPECT_EQ(read_all(reader, keys)->ready(), 0u);
  reader.flush();
  EXPECT_EQ(server_.values().size(), 1u);
  EXPECT_EQ(read_all(reader, keys)->ready(), 1u);
  put_all(reader, keys);
  EXPECT_EQ(server_.count("SET"), 1u) << "a block that was read since is not written again";
}

TEST_F(RedisTierTest, ReadsNoReplyThatIsLongerThanABlock) {
  const auto keys = keys_of(1);
  RedisTier tier(options());
  script("GETRANGE", {.bytes = "$500000000\r\n" + std::string(4 << 20, 'x'), .stall = true}, 2);
  EXPECT_EQ(read_all(tier, keys)->ready(), 0u);
  EXPECT_GT(tier.counts().failures, 0u);
}

TEST_F(RedisTierTest, IsNotHeldUpByAStoreThatStalls) {
  RedisTierOptions impatient = options();
  impatient.command_seconds = 0.02;
  impatient.most_pause_seconds = impatient.first_pause_seconds = 3600;
  std::vector<std::string> said;
  std::mutex mutex;
  impatient.report = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    said.push_back(what);
  };
  RedisTier tier(impatient);
  script("TOUCH", {.bytes = "", .stall = true}, 1000);
  const auto keys = keys_of(4);
  EXPECT_EQ(look_up(tier, keys)->has, std::vector<char>(4, 0));
  // The link is in its pause now: lookups and reads end at once and send nothing.
  wait_for([&] { return !tier.counts().connected; });
  const size_t asked = server_.count("TOUCH");
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(tier.look_up(ids_of(keys), 5)->done());
    EXPECT_TRUE(tier.read(keys)->done());
  }
  EXPECT_EQ(server_.count("TOUCH"), asked);
  EXPECT_GE(tier.counts().skipped, 200u);
  const std::lock_guard lock(mutex);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("is not used until it answers: it does not answer in time"),
            std::string::npos)
      << said[0];
}

TEST_F(RedisTierTest, ReconnectsWhereConnectionsAreDroppedAndForgetsWhatItBelieved) {
  const auto keys = keys_of(3);
  RedisTier tier(options());
  put_all(tier, keys);
  for (int i = 0; i < 20; ++i) {
    server_.drop_all();
    const auto read = read_all(tier, keys);
    if (i == 0) {
      EXPECT_EQ(read->ready(), 3u) << "an idle connection that was closed costs no read";
    }
  }
  expect_all(tier, keys);
}

TEST_F(RedisTierTest, GoesOnWithoutAStoreAndFindsItWhenItComes) {
  RedisTierOptions gone = options();
  std::atomic<int> said = 0;
  gone.report = [&](const std::string&) { ++said; };
  {
    const TestServer other;
    gone.address.port = other.port();
  }
  RedisTier tier(gone);
  EXPECT_EQ(said, 1);
  const auto keys = keys_of(2);
  for (int i = 0; i < 3; ++i) {
    put_all(tier, keys);
    EXPECT_EQ(look_up(tier, keys)->has, std::vector<char>(2, 0));
    EXPECT_EQ(read_all(tier, keys)->ready(), 0u);
  }
  TestServer server(gone.address.port);
  expect_all(tier, keys);
  EXPECT_EQ(server.values().size(), 2u);
  EXPECT_EQ(said, 2);
  EXPECT_TRUE(tier.counts().connected);
}

TEST_F(RedisTierTest, StopsWritingWhereTheStoreIsFull) {
  RedisTierOptions slow = options();
  slow.first_pause_seconds = slow.most_pause_seconds = 3600;
  RedisTier tier(slow);
  script("SET", {.bytes = "-OOM command not allowed when used memory > 'maxmemory'.\r\n"}, 1000);
  const auto keys = keys_of(30);
  put_all(tier, keys);
  EXPECT_EQ(tier.counts().full, 1u);
  put_all(tier, keys_of(5, 5000));
  EXPECT_EQ(server_.count("SET"), 1u) << "for a while nothing is sent";
  EXPECT_EQ(look_up(tier, keys)->has[0], 0) << "but it is still asked";
}

TEST_F(RedisTierTest, QueuesNoMoreRowsThanItMay) {
  RedisTierOptions small = options();
  small.most_queued_bytes = 2 * kRowBytes;
  RedisTier tier(small);
  std::atomic<bool> held = true;
  server_.script([&](const Command& command) -> std::optional<Scripted> {
    while (held && command[0] == "TOUCH") std::this_thread::yield();
    return std::nullopt;
  });
  const auto keys = keys_of(5);
  for (size_t i = 0; i < keys.size(); ++i) put(tier, keys[i], i);
  held = false;
  tier.flush();
  EXPECT_EQ(tier.counts().dropped_writes, 3u);
  EXPECT_EQ(tier.counts().writes, 2u);
  EXPECT_EQ(made_, 2u);
}

TEST_F(RedisTierTest, ReadsNoAnswersToAnExchangeThatThrew) {
  Link link({.address = {.host = "127.0.0.1", .port = server_.port()}, .report = {}});
  const Until until = {base::steady_seconds() + 60, nullptr};
  EXPECT_THROW(link.run([&](RedisClient& client) -> base::Status<> {
    KVICK_TRY_VOID(client.send({"TOUCH", "a"}, until));
    throw std::bad_alloc();
  }),
               std::bad_alloc);
  Reply reply;
  EXPECT_TRUE(link.run([&](RedisClient& client) -> base::Status<> {
    KVICK_TRY_VOID(client.send({"GETRANGE", "a", "0", "1"}, until));
    KVICK_TRY(reply, client.receive(100, until));
    return base::Done{};
  }));
  EXPECT_EQ(reply.type, Reply::Type::kText) << "and not the number that TOUCH is answered by";
}

TEST_F(RedisTierTest, SaysWhoItIsAndWhichDatabaseItWants) {
  RedisTierOptions known = options();
  known.address.user = "kvick";
  known.address.password = "secret";
  known.address.database = 3;
  std::vector<Command> seen;
  std::mutex mutex;
  server_.script([&](const Command& command) -> std::optional<Scripted> {
    const std::lock_guard lock(mutex);
    seen.push_back(command);
    return std::nullopt;
  });
  const RedisTier tier(known);
  wait_for([&] { return tier.counts().connected; });
  const std::lock_guard lock(mutex);
  ASSERT_GE(seen.size(), 3u);
  EXPECT_EQ(seen[0], (Command{"AUTH", "kvick", "secret"}));
  EXPECT_EQ(seen[1], (Command{"SELECT", "3"}));
}

}  // namespace
}  // namespace kvick::store
