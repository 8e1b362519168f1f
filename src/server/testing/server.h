#pragma once
// A test server over a scripted service, on its own port and thread.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "server/api/api.h"
#include "server/net/server.h"
#include "server/testing/client.h"
#include "server/testing/scripted_service.h"
#include "server/testing/service.h"

namespace kvick::server {

class TestServer {
 public:
  explicit TestServer(ServerOptions options = {}, ApiKeys keys = ApiKeys())
      : server_([&] {
          options.port = 0;
          return std::move(options);
        }()),
        api_(test_engine(), service,
             {.model = "tiny",
              .keys = std::move(keys),
              .constraint = [](const Json&) { return base::fail("no constraints here"); },
              .random = [n = uint64_t{0}]() mutable { return ++n; },
              .unix_time = [] { return 1000; },
              .report = {}},
             server_.threads(), server_.counters()) {
    const auto opened = server_.listen(api_);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    port = *opened;
    thread_ = std::thread([this] {
      server_.run();
      ended_ = true;
    });
  }
  ~TestServer() {
    server_.stop();
    join();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  Client client(int receive_bytes = 0) const { return Client(port, receive_bytes); }
  Server& server() { return server_; }
  bool ended() const { return ended_; }
  // Returns a value of /metrics, or -1 if it is missing.
  double metric(std::string_view name) const {
    Client client(port);
    client.get("/metrics");
    const std::string body = client.answer().body;
    const size_t at = body.find(fmt::format("\nkvick_{} ", name));
    return at == std::string::npos ? -1 : std::atof(body.c_str() + at + 8 + name.size());
  }

  ScriptedService service;
  uint16_t port = 0;

 private:
  Server server_;
  Api api_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace kvick::server
