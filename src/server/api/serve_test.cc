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
  Client ollama(port->port());
  ollama.get("/api/tags");
  EXPECT_EQ(ollama.answer().body, R"({"error":"the model is being loaded; try again"})");
  ollama.hang_up();
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
  kill(getpid(), SIGTERM);  // handled, because the server is serving
  thread.join();
}

TEST(OpenPort, EndsAtTheSecondSignalWhileAModelIsBeingLoaded) {
  std::promise<void> begun, given_up;
  std::vector<ModelSource> sources;
  sources.push_back({.name = "slow", .load = [&]() -> base::Result<LoadedModel> {
                       begun.set_value();
                       given_up.get_future().wait();
                       return base::fail("given up");
                     }});
  ModelHost host(std::move(sources), {.give_up_load = [&] { given_up.set_value(); }});
  const auto port = OpenPort::open({.port = 0, .signals = true}).value();
  std::thread thread([&] { port->serve(host, ServeOptions()); });
  Client idle(port->port()), client(port->port());
  std::string seen;
  do {  // waits until the server is serving
    idle.get("/v1/models");
    seen = idle.answer().body;
  } while (seen.find("slow") == std::string::npos);
  client.post("/v1/completions", R"({"prompt":"x","model":"slow"})");
  begun.get_future().wait();
  kill(getpid(), SIGTERM);
  EXPECT_EQ(idle.read_to_end(), "");  // the first signal was handled
  kill(getpid(), SIGTERM);
  thread.join();
}

TEST(OpenPort, EndsWithoutHavingServed) {
  const auto port = OpenPort::open({.port = 0}).value();
  EXPECT_FALSE(OpenPort::open({.port = port->port()}).ok());
}

}  // namespace
}  // namespace kvick::server
