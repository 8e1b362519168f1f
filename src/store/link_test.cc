#include "store/link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/redis_tier.h"
#include "store/test_server.h"

#include "base/clock.h"
#include "base/testing/hung_resolver.h"

namespace kvick::store {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

addrinfo info_of(sockaddr_in& address, addrinfo* next) {
  addrinfo info = {};
  info.ai_family = AF_INET;
  info.ai_socktype = SOCK_STREAM;
  info.ai_addr = reinterpret_cast<sockaddr*>(&address);
  info.ai_addrlen = sizeof(address);
  info.ai_next = next;
  return info;
}

// A port that answers nobody, as a host behind a firewall that drops packets: its queue of
// connections is full.
class SilentPort {
 public:
  SilentPort() {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    listener_ = open();
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 0), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    for (int i = 0; i < 4; ++i) ::connect(open(), reinterpret_cast<sockaddr*>(&address), size);
  }
  ~SilentPort() {
    for (const int fd : open_) ::close(fd);
  }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;
  uint16_t port() const { return port_; }

 private:
  int open() {
    return open_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  }
  std::vector<int> open_;
  int listener_ = -1;
  uint16_t port_ = 0;
};

TEST(Wire, TriesTheNextAddressOfAHostWhereTheFirstDoesNotAnswer) {
  test::TestServer server;
  const SilentPort silent;
  sockaddr_in first = loopback(silent.port()), second = loopback(server.port());
  addrinfo answers = info_of(second, nullptr), both = info_of(first, &answers),
           none = info_of(first, nullptr);
  const auto until = [](double seconds) {
    return Until{base::steady_seconds() + seconds, nullptr};
  };
  EXPECT_FALSE(Wire::connect(&none, StoreAddress{}, until(0.1)).ok());
  auto wire = Wire::connect(&both, StoreAddress{}, until(4));
  ASSERT_TRUE(wire.ok()) << wire.error().message;
  RedisClient client(*std::move(wire));
  ASSERT_TRUE(client.send({"PING"}, until(60)).ok());
  const auto reply = client.receive(100, until(60));
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->text, "PONG");
}

RedisTierOptions options_for(const test::TestServer& server, base::HungResolver& resolver) {
  return {.address = {.host = "127.0.0.1", .port = server.port()},
          .connect_seconds = 0.05,
          .first_pause_seconds = 0.001,
          .most_pause_seconds = 0.01,
          .report = {},
          .resolve = resolver.resolve()};
}

// Waits without a limit: a slow machine must not fail a test, whose own time-out ends a hang.
template <typename Condition>
void wait_for(const Condition& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(RedisTierOfAName, EndsThoughNoNameServerAnswers) {
  const test::TestServer server;
  base::HungResolver resolver;
  std::vector<std::string> said;
  RedisTierOptions options = options_for(server, resolver);
  options.report = [&](const std::string& what) { said.push_back(what); };
  {
    const RedisTier tier(options);
    wait_for([&] { return tier.counts().failures > 4; });
    EXPECT_LE(resolver.calls(), 2) << "one for each connection, for which all its tries wait";
  }
  resolver.open();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("its name is not found in time"), std::string::npos) << said[0];
}

TEST(RedisTierOfAName, IsUsedOnceTheNameIsFoundThoughThatTakesLong) {
  const test::TestServer server;
  base::HungResolver resolver;
  const RedisTier tier(options_for(server, resolver));
  EXPECT_FALSE(tier.counts().connected);
  resolver.open();
  wait_for([&] { return tier.counts().connected; });
  EXPECT_GT(server.count("PING"), 0U);
}

}  // namespace
}  // namespace kvick::store
