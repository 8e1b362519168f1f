#pragma once
// The network: one thread that takes connections, reads requests, and writes answers. What to
// answer is a Handler's matter.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/net/sites.h"
#include "server/request/http.h"

namespace kvick::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: any that is free
  size_t most_connections = 1024;
  size_t most_head_bytes = 16 << 10;
  size_t most_body_bytes = 8 << 20;
  size_t most_bodies_bytes = 64 << 20;  // of all requests at once that are not yet submitted
  // Bytes of a stream that its client has not read yet; beyond it the client is dropped.
  size_t most_unread_bytes = 1 << 20;
  std::chrono::milliseconds head_time{10'000};   // from a request's first byte to its head's last
  std::chrono::milliseconds body_time{60'000};   // from there to its body's last
  std::chrono::milliseconds idle_time{75'000};   // between requests
  std::chrono::milliseconds write_time{30'000};  // without a byte read by the client
  // Silence of a stream after which a comment goes out: proxies cut connections that carry nothing,
  // and a long prompt takes longer than they wait. 0: none.
  std::chrono::milliseconds heartbeat_time{15'000};
  std::chrono::milliseconds drain_time{30'000};  // for running requests, once a signal has come
  bool signals = false;                          // SIGINT and SIGTERM drain, a second one stops
  uint32_t id_seed = 0;                          // in the ids of requests that bring none
  std::function<void()> on_drain = {};           // on the network's thread, once
  SiteOptions sites = {};                        // which may use it beside its own
  unsigned background_threads = 4, answer_threads = 2;
  // Told what a task of the network threw, on its thread.
  std::function<void(const std::string&)> report = {};
};

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // For handlers; they take work until run() returns, and drop it after. The network's waits for
  // run().
  Threads threads();
  // To be read on the network's thread.
  const NetworkCounters& counters() const;

  // Opens the port and returns its number. Connections wait for run(). The handler outlives the
  // server's run(). Error: no such host, or the port is taken.
  base::Result<uint16_t> listen(Handler& handler);
  // Is the network's thread until the server has drained or is stopped. Once.
  void run();

  // These may be called from any thread, and more than once.
  // Another handler for the requests that come from now on, and signals as in ServerOptions.
  void hand_over(Handler& handler, bool signals);
  // Connections without a request are closed, the others once they are answered, and all when the
  // time is over. New ones are taken until then, for a request each: the handler says that the
  // server drains (NetworkCounters::draining), but nothing waits for their answers.
  void drain(std::chrono::milliseconds time);
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvick::server
