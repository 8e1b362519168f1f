// How long the server waits for clients that vanish, send or read slowly, or are idle.

#include <gtest/gtest.h>

#include "server/testing/server.h"

namespace kvick::server {
namespace {

using std::chrono::milliseconds;

constexpr const char* kPath = "/v1/completions";

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

}  // namespace
}  // namespace kvick::server
