#include "server/ops/kv_event_publisher.h"

#include <array>
#include <gtest/gtest.h>
#include <malloc.h>
#include <vector>
#include <zmq.h>

#include "server/testing/client.h"

// libzmq is not compiled for ThreadSanitizer, which therefore does not see how its threads
// synchronise.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libzmq.so\n"; }

namespace kvick::server {
namespace {

uint16_t port_of(const std::string& endpoint) {
  return static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

// Returns the head of a frame as an old peer writes it: flags and the size in 8 bytes.
std::string frame_head(uint64_t bytes) {
  std::string head = "\xFF";
  for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>(bytes >> shift);
  return head + '\0';
}

// libzmq allocates the size that a frame's head announces, even a petabyte.
TEST(KvEventPublisher, HangsUpOnWhoAnnouncesAFrameThatNobodyNeeds) {
  const auto publisher =
      *KvEventPublisher::open({.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*"},
                              std::make_shared<engine::PrefixEvents>());
  for (const std::string& endpoint : {publisher->endpoint(), publisher->replay_endpoint()})
    for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{1} << 50, UINT64_MAX}) {
      SCOPED_TRACE(fmt::format("{} to {}", bytes, endpoint));
      Client client(port_of(endpoint));
      client.send(frame_head(1) + frame_head(bytes) + "and a few bytes of it");
      EXPECT_TRUE(client.ended());
    }
}

using Parts = std::vector<std::string>;

// A client that asks for batches and accepts no further message before it has read one.
class Asker {
 public:
  explicit Asker(const std::string& endpoint)
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_DEALER)) {
    const int wait_ms = 10'000, linger_ms = 0, most = 1;
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &most, sizeof most);
    EXPECT_EQ(zmq_connect(socket_, endpoint.c_str()), 0);
  }
  ~Asker() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  void ask(uint64_t from, size_t more_parts = 0) {
    std::string number;
    for (int shift = 56; shift >= 0; shift -= 8) number += static_cast<char>(from >> shift);
    zmq_send(socket_, "", 0, ZMQ_SNDMORE);
    zmq_send(socket_, number.data(), number.size(), more_parts > 0 ? ZMQ_SNDMORE : 0);
    for (size_t i = 1; i <= more_parts; ++i)
      zmq_send(socket_, "x", 1, i < more_parts ? ZMQ_SNDMORE : 0);
  }
  // Returns the parts of a message; empty if none arrives in time.
  Parts receive() {
    Parts parts;
    int more = 1;
    for (size_t bytes = sizeof more; more != 0;
         zmq_getsockopt(socket_, ZMQ_RCVMORE, &more, &bytes)) {
      zmq_msg_t part;
      zmq_msg_init(&part);
      if (zmq_msg_recv(&part, socket_, 0) < 0) return {};
      parts.emplace_back(static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
      zmq_msg_close(&part);
    }
    return parts;
  }

 private:
  void *context_, *socket_;
};

const Parts kEnd = {"", std::string(8, '\xFF'), ""};

// Returns the number of a message with a batch.
uint64_t number_of(const Parts& parts) {
  uint64_t number = 0;
  for (const char byte : parts.at(1)) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

// Asks until the batch with this number is published. Returns whether it was the only answer.
bool wait_for_batch(Asker& asker, uint64_t number) {
  Parts first;
  do {
    asker.ask(number);
    first = asker.receive();
  } while (first == kEnd);
  return first.size() == 3 && number_of(first) == number && asker.receive() == kEnd;
}

size_t used_bytes() {
  const auto now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

// Asks 40 times for a batch of 1.5 MB. The system's buffers hold at most 10 MB of unread data.
TEST(KvEventPublisher, HoldsABatchOnceHoweverOftenItIsAskedFor) {
  const std::vector<kv::Token> tokens(300'000, 100'000);  // 5 bytes each in msgpack
  const auto events = std::make_shared<engine::PrefixEvents>();
  events->stored({.id = 1, .parent = 0, .tokens = tokens});
  const auto publisher = *KvEventPublisher::open(
      {.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*"}, events);
  Asker reader(publisher->replay_endpoint()), idle(publisher->replay_endpoint());
  Parts first;
  do {  // waits until the batch is published
    reader.ask(0);
    first = reader.receive();
  } while (first == kEnd);
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[1], std::string(8, '\0'));
  EXPECT_GT(first[2].size(), 5 * tokens.size());
  EXPECT_EQ(reader.receive(), kEnd);
  const size_t before = used_bytes();
  for (int i = 0; i < 40; ++i) idle.ask(0);
  // The publisher takes the questions of both clients in turn meanwhile.
  for (int i = 0; i < 200; ++i) {
    reader.ask(1);
    ASSERT_EQ(reader.receive(), kEnd);
  }
  EXPECT_LT(used_bytes(), before + (20 << 20));
}

// The queue of the slow client has room for a hundredth of an answer. It empties now and then while
// the publisher answers, so that a later batch would find room again.
TEST(KvEventPublisher, EndsAnAnswerEarlyRatherThanLeaveOutBatches) {
  constexpr uint64_t kBatches = 1000;
  const auto events = std::make_shared<engine::PrefixEvents>();
  const auto publisher = *KvEventPublisher::open(
      {.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*", .most_unread = 10}, events);
  Asker reader(publisher->replay_endpoint()), slow(publisher->replay_endpoint());
  const std::vector<kv::Token> tokens(16, 1);
  for (uint64_t i = 0; i < kBatches; ++i) {  // batch 0 says that the cache is empty
    if (i > 0) events->stored({.id = i, .parent = 0, .tokens = tokens});
    ASSERT_TRUE(wait_for_batch(reader, i));
  }
  for (int i = 0; i < 50; ++i) slow.ask(0);
  // The publisher takes the questions of both clients in turn meanwhile.
  for (int i = 0; i < 100; ++i) {
    reader.ask(kBatches);
    ASSERT_EQ(reader.receive(), kEnd);
  }
  slow.ask(kBatches);
  uint64_t due = 0;  // the number after the last one
  for (Parts parts = slow.receive(); !parts.empty(); parts = slow.receive()) {
    ASSERT_EQ(parts.size(), 3U);
    if (parts == kEnd && due < kBatches) break;  // the answer to the last question
    if (parts == kEnd) continue;
    const uint64_t number = number_of(parts);
    EXPECT_TRUE(number == 0 || number == due) << "batch " << number << " follows " << due - 1;
    due = number + 1;
  }
}

TEST(KvEventPublisher, PublishesBatchesOfWhichItKeepsNone) {
  const auto events = std::make_shared<engine::PrefixEvents>();
  const auto publisher = *KvEventPublisher::open(
      {.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*", .most_kept = 0}, events);
  void* const context = zmq_ctx_new();
  void* const subscriber = zmq_socket(context, ZMQ_SUB);
  const int wait_ms = 10, linger_ms = 0;
  zmq_setsockopt(subscriber, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
  zmq_setsockopt(subscriber, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
  zmq_setsockopt(subscriber, ZMQ_SUBSCRIBE, "", 0);
  EXPECT_EQ(zmq_connect(subscriber, publisher->endpoint().c_str()), 0);
  const std::vector<kv::Token> tokens(16, 1);
  std::array<char, 64> topic = {};
  int topic_bytes = -1;
  // Batches that are sent before the subscription has arrived are lost.
  for (uint64_t id = 1; topic_bytes < 0 && id < 1000; ++id) {
    events->stored({.id = id, .parent = 0, .tokens = tokens});
    topic_bytes = zmq_recv(subscriber, topic.data(), topic.size(), 0);
  }
  EXPECT_EQ(topic_bytes, 0) << "no batch arrived";
  Asker asker(publisher->replay_endpoint());
  asker.ask(0);
  EXPECT_EQ(asker.receive(), kEnd);
  zmq_close(subscriber);
  zmq_ctx_term(context);
}

// Two batches of 1.5 MB do not fit.
TEST(KvEventPublisher, KeepsNoMoreBytesThanItMay) {
  const std::vector<kv::Token> tokens(300'000, 100'000);  // 5 bytes each in msgpack
  const auto events = std::make_shared<engine::PrefixEvents>();
  const auto publisher = *KvEventPublisher::open({.endpoint = "tcp://127.0.0.1:*",
                                                  .replay = "tcp://127.0.0.1:*",
                                                  .most_kept_bytes = 2'000'000},
                                                 events);
  Asker asker(publisher->replay_endpoint());
  ASSERT_TRUE(wait_for_batch(asker, 0));
  for (uint64_t id = 1; id <= 2; ++id) {
    events->stored({.id = id, .parent = 0, .tokens = tokens});
    ASSERT_TRUE(wait_for_batch(asker, id));
  }
  asker.ask(0);
  const Parts first = asker.receive();
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(number_of(first), 2U);
  EXPECT_EQ(asker.receive(), kEnd);
}

TEST(KvEventPublisher, DoesNotAnswerWhatHasMorePartsThanAQuestion) {
  const auto publisher =
      *KvEventPublisher::open({.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*"},
                              std::make_shared<engine::PrefixEvents>());
  Asker asker(publisher->replay_endpoint());
  for (const size_t more : {1, 2, 1000}) asker.ask(0, more);
  asker.ask(9);
  EXPECT_EQ(asker.receive(), kEnd);
}

}  // namespace
}  // namespace kvick::server
