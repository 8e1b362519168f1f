#include "server/ops/kv_event_publisher.h"

#include <gtest/gtest.h>

#include "server/testing/client.h"

// libzmq is not compiled for ThreadSanitizer, which therefore sees none of what orders its own
// threads.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libzmq.so\n"; }

namespace kvick::server {
namespace {

uint16_t port_of(const std::string& endpoint) {
  return static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

// As an old peer writes it: the bytes that follow, as a number of 8 bytes, and flags.
std::string frame_head(uint64_t bytes) {
  std::string head = "\xFF";
  for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>(bytes >> shift);
  return head + '\0';
}

// libzmq allocates what the head of a frame says, of a petabyte too.
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

}  // namespace
}  // namespace kvick::server
