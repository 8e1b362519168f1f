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

}  // namespace
}  // namespace kvick::server
