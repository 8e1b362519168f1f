// How long the server waits for clients that vanish, send or read slowly, or are idle.

#include <gtest/gtest.h>

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
