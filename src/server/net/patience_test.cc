// How long the server waits for clients that vanish, send or read slowly, or are idle, and what it
// keeps for them.

#include <algorithm>
#include <future>
#include <gtest/gtest.h>
#include <malloc.h>
#include <numeric>

#include "server/testing/server.h"

namespace kvick::server {
namespace {

using std::chrono::milliseconds;

constexpr const char* kPath = "/v1/completions";

// A handler whose answers are so many bytes long.
class Large : public Handler {
 public:
  explicit Large(size_t bytes) : bytes_(bytes) {}
  void handle(HttpRequest, std::shared_ptr<Reply> reply) override {
    reply->send({.body = std::string(bytes_, 'x')});
  }

 private:
  size_t bytes_;
};

// A server with a handler of the test's own.
struct Running {
  Running(Handler& handler, ServerOptions options)
      : server(std::move(options)),
        port(server.listen(handler).value()),
        thread([this] { server.run(); }) {}
  ~Running() { stop(); }
  void stop() {
    server.stop();
    if (thread.joinable()) thread.join();
  }
  Server server;
  uint16_t port;
  std::thread thread;
};

// The heartbeats that the client's system does not acknowledge show that it has gone.
TEST(Server, CancelsTheStreamOfAClientThatVanished) {
  TestServer server({.gone_time = milliseconds(1000), .heartbeat_time = milliseconds(100)});
  Client client = server.client();
  client.post(kPath, R"({"prompt":"x","max_tokens":9,"stream":true,"cache_salt":"hold"})");
  client.read_until("w0");
  ASSERT_TRUE(client.vanish());
  EXPECT_TRUE(server.service.wait_for_cancellations(1));
}

// Nothing is sent while the client waits, so only probes show that it has gone.
TEST(Server, CancelsTheAnswerThatAClientVanishedFrom) {
  TestServer server({.gone_time = milliseconds(1000)});
  Client client = server.client();
  client.post(kPath, R"({"prompt":"x","max_tokens":9,"cache_salt":"hold"})");
  EXPECT_TRUE(server.service.wait_for_jobs(1));
  ASSERT_TRUE(client.vanish());
  EXPECT_TRUE(server.service.wait_for_cancellations(1));
}

// Each byte comes soon after the one before, but the limits are on the whole head and body.
TEST(Server, SendsAwayClientsThatSendAByteNowAndThen) {
  TestServer server({.head_time = milliseconds(200), .body_time = milliseconds(200)});
  Client head = server.client(), body = server.client(), empty = server.client();
  head.send("GET /health HTTP/1.1\r\nX: ");
  body.send(
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
      "Content-Length: 100000\r\n\r\n{");
  for (int i = 0; i < 1000 && !(head.has_bytes() && body.has_bytes()); ++i) {
    head.send("x");
    body.send(" ");
    empty.send("\r\n");
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(head.answer().status, 408);
  EXPECT_EQ(body.answer().status, 408);
  EXPECT_TRUE(empty.ended()) << "line ends before a request begin none";
}

// A long answer may take longer to read than a connection may be idle.
TEST(Server, GivesALongAnswerMoreTimeThanAnIdleConnection) {
  constexpr size_t kBytes = size_t{64} << 20;
  Large large(kBytes);
  Running running(large, {.port = 0, .idle_time = milliseconds(1000)});
  Client client(running.port, 1 << 16);
  client.get("/");
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200")) << head;
  std::this_thread::sleep_for(milliseconds(1500));
  const std::string piece(1 << 20, 'x');
  size_t bytes = 0;
  for (std::string got = piece; bytes < kBytes && got.size() >= piece.size(); bytes += got.size())
    got = client.read_until(piece);
  EXPECT_EQ(bytes, kBytes);
}

// A handler that streams events of these lengths at once, before the client can have read anything.
class Events : public Handler {
 public:
  explicit Events(std::vector<size_t> lengths, size_t long_events = 1)
      : lengths_(std::move(lengths)), long_events_(long_events) {}
  void handle(HttpRequest, std::shared_ptr<Reply> reply) override {
    reply->on_gone([this] { gone_ = true; });
    reply->begin_events({.long_events = long_events_});
    for (const size_t length : lengths_) {
      reply->event(std::string(length, '#'));
      if (gone_) return;
      taken += length;
    }
    reply->end_events();
  }
  size_t bytes() const { return std::accumulate(lengths_.begin(), lengths_.end(), size_t{0}); }
  size_t longest() const { return *std::max_element(lengths_.begin(), lengths_.end()); }
  size_t taken = 0;  // bytes of the events before the one with which the client was dropped

 private:
  const std::vector<size_t> lengths_;
  const size_t long_events_;
  bool gone_ = false;
};

TEST(Server, GivesTheClientOfAStreamTimeToReadAnEventLongerThanItMayLeaveUnread) {
  Events events({1000, size_t{3} << 20, 1000, 1000});
  Running running(events, {.port = 0});
  Client client(running.port);
  client.get("/", "Connection: close\r\n");
  const std::string all = client.read_to_end();
  EXPECT_TRUE(all.ends_with("0\r\n\r\n")) << all.size() << " bytes";
  EXPECT_EQ(static_cast<size_t>(std::count(all.begin(), all.end(), '#')), events.bytes());
  running.stop();
  EXPECT_EQ(running.server.counters().slow, 0U);
}

// As with the reports of several prompts.
TEST(Server, GivesTheClientOfAStreamTimeToReadAsManyLongEventsAsWereAnnounced) {
  constexpr size_t kLong = size_t{3} << 20;
  Events events({1000, kLong, kLong, 1000, 1000, kLong, 1000}, 3);
  Running running(events, {.port = 0});
  Client client(running.port);
  client.get("/", "Connection: close\r\n");
  const std::string all = client.read_to_end();
  EXPECT_TRUE(all.ends_with("0\r\n\r\n")) << all.size() << " bytes";
  EXPECT_EQ(static_cast<size_t>(std::count(all.begin(), all.end(), '#')), events.bytes());
  running.stop();
  EXPECT_EQ(running.server.counters().slow, 0U);
}

TEST(Server, KeepsNoMoreLongEventsThanWereAnnouncedForAClientThatDoesNotRead) {
  constexpr size_t kMost = 64 << 10, kLong = 4 * kMost;
  Events events(std::vector<size_t>(8, kLong), 3);
  Running running(events, {.port = 0, .most_unread_bytes = kMost});
  Client client(running.port);
  client.get("/");
  EXPECT_FALSE(client.read_to_end().ends_with("0\r\n\r\n"));
  running.stop();
  EXPECT_EQ(running.server.counters().slow, 1U);
  EXPECT_EQ(events.taken, 3 * kLong);
}

// What is kept for a client that does not read is bounded by one event, not by all long ones.
TEST(Server, KeepsAtMostOneEventBeyondTheLimitForAClientThatDoesNotRead) {
  constexpr size_t kMost = 64 << 10;
  std::vector<size_t> long_and_short(200, 1000);
  long_and_short.front() = 4 * kMost;
  const std::vector<std::vector<size_t>> streams = {std::vector<size_t>(200, 1000),
                                                    std::vector<size_t>(4, 2 * kMost),
                                                    {2 * kMost, 4 * kMost, 8 * kMost, 16 * kMost},
                                                    long_and_short};
  for (size_t i = 0; i < streams.size(); ++i) {
    SCOPED_TRACE(i);
    Events events(streams[i]);
    Running running(events, {.port = 0, .most_unread_bytes = kMost});
    Client client(running.port);
    client.get("/");
    EXPECT_FALSE(client.read_to_end().ends_with("0\r\n\r\n"));
    running.stop();
    EXPECT_EQ(running.server.counters().slow, 1U);
    EXPECT_GT(events.taken, 0U);
    EXPECT_LE(events.taken, kMost + events.longest());
  }
}

// A handler that leaves its reply to the test.
class KeptReply : public Handler {
 public:
  void handle(HttpRequest, std::shared_ptr<Reply> to) override {
    to->on_gone([this] { gone = true; });
    to->begin_events({});
    reply = std::move(to);
  }
  std::shared_ptr<Reply> reply;
  std::atomic<bool> gone = false;
};

// Each event comes after the network had time to write what it can of those before.
TEST(Server, DropsAClientThatNeverReadsThoughEachEventIsLongerThanTheLimit) {
  KeptReply handler;
  Running running(handler, {.port = 0, .most_unread_bytes = 64 << 10});
  Client client(running.port, 4096);
  client.get("/");
  EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200"));
  const Post network = running.server.threads().network;
  constexpr int kMostEvents = 1000;  // 256 MB, more than the system's buffers hold
  int events = 0;
  for (; events < kMostEvents && !handler.gone; ++events) {
    std::promise<void> done;
    network([&] {
      handler.reply->event(std::string(256 << 10, '#'));
      done.set_value();
    });
    done.get_future().wait();
  }
  EXPECT_LT(events, kMostEvents);
  EXPECT_TRUE(handler.gone);
  running.stop();
  EXPECT_EQ(running.server.counters().slow, 1U);
}

// A handler with a long answer at /long and short ones elsewhere.
class LongAndShort : public Handler {
 public:
  explicit LongAndShort(size_t bytes) : bytes_(bytes) {}
  void handle(HttpRequest request, std::shared_ptr<Reply> reply) override {
    reply->send({.body = std::string(request.target == "/long" ? bytes_ : 1, 'x')});
  }

 private:
  size_t bytes_;
};

size_t used_bytes() {
  const auto now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

TEST(Server, KeepsNoMemoryOfALongAnswerThatItsClientHasRead) {
  constexpr size_t kBytes = size_t{16} << 20;
  LongAndShort handler(kBytes);
  Running running(handler, {.port = 0});
  Client client(running.port);
  const auto ask_briefly = [&] {
    client.get("/short");
    EXPECT_EQ(client.answer().body, "x");
  };
  ask_briefly();
  const size_t before = used_bytes();
  client.get("/long");
  client.read_until("\r\n\r\n");
  const std::string piece(1 << 16, 'x');
  for (size_t read = 0; read < kBytes; read += piece.size())
    ASSERT_EQ(client.read_until(piece).size(), piece.size());
  ask_briefly();  // by now the server knows that all of the long answer is written
  EXPECT_LT(used_bytes(), before + kBytes / 2);
}

// The rest of the answer is below the limit for streams, and every write makes some progress.
TEST(Server, DropsAClientThatReadsTheRestOfItsAnswerTooSlowly) {
  constexpr size_t kBytes = size_t{32} << 20;
  Large large(kBytes);
  Running running(large,
                  {.port = 0, .most_unread_bytes = 2 * kBytes, .idle_time = milliseconds(300)});
  Client client(running.port, 1 << 16);
  client.get("/", "Connection: close\r\n");
  const std::string piece(1 << 16, 'x');
  size_t bytes = 0;
  for (std::string got = piece; got.size() >= piece.size(); bytes += got.size()) {
    std::this_thread::sleep_for(milliseconds(20));
    got = client.read_until(piece);
  }
  running.stop();
  EXPECT_LT(bytes, kBytes);
  EXPECT_EQ(running.server.counters().slow, 1U);
}

}  // namespace
}  // namespace kvick::server
