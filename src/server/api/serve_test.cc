#include "server/api/serve.h"

#include <csignal>
#include <future>
#include <gtest/gtest.h>
#include <unistd.h>

#include "server/testing/client.h"
#include "server/testing/scripted_service.h"
#include "server/testing/service.h"

namespace kvick::server {
namespace {

TEST(OpenPort, SaysThatTheModelIsBeingLoadedUntilItServes) {
  const auto port = OpenPort::open({.port = 0, .signals = true}).value();
  Client client(port->port());
  for (const char* path : {"/health", "/v1/models", "/nowhere"}) {
    client.get(path);
    const auto answer = client.answer();
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_NE(answer.body.find("loaded"), std::string::npos);
    EXPECT_NE(answer.head.find("Retry-After: 1\r\n"), std::string::npos);
  }
  client.post("/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(client.answer().status, 503);
  client.hang_up();

  ScriptedService service;
  std::promise<uint16_t> listening;
  std::thread thread([&] {
    ServeOptions options;
    options.model = "tiny";
    options.on_listening = [&](uint16_t number) { listening.set_value(number); };
    port->serve(test_engine(), service, std::move(options));
  });
  EXPECT_EQ(listening.get_future().get(), port->port());
  Client other(port->port());
  other.get("/health");
  EXPECT_EQ(other.answer().status, 200);
  kill(getpid(), SIGTERM);  // taken, since it serves
  thread.join();
}

TEST(OpenPort, EndsWithoutHavingServed) {
  const auto port = OpenPort::open({.port = 0}).value();
  EXPECT_FALSE(OpenPort::open({.port = port->port()}).ok());
}

}  // namespace
}  // namespace kvick::server
