#pragma once
// The network: one thread that accepts connections, reads requests, and writes answers. A Handler
// decides the answers.

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
  uint16_t port = 8080;  // 0: any free port
  size_t most_connections = 1024;
  size_t most_head_bytes = 16 << 10;
  size_t most_body_bytes = 8 << 20;
  // Of all requests with bodies, their heads included, not yet submitted (BodyBudget).
  size_t most_bodies_bytes = 64 << 20;
  // Limit on the bytes of a stream that its client has not read yet, apart from its longest events
  // (StreamHead::long_events). A client that exceeds it is dropped.
  size_t most_unread_bytes = 1 << 20;
  // From the first byte of a request to the end of its head.
  std::chrono::milliseconds head_time{10'000};
  std::chrono::milliseconds body_time{60'000};  // from the end of the head to the end of the body
  // Wait for the next request after an answer was read, and before that the time for the last
  // most_unread_bytes of the answer.
  std::chrono::milliseconds idle_time{75'000};
  std::chrono::milliseconds write_time{30'000};  // longest time in which the client reads no byte
  // Longest time in which the client's system acknowledges nothing: neither data nor probes.
  std::chrono::milliseconds gone_time{60'000};
  // Time without an event after which a stream sends a comment: proxies cut silent connections, and
  // a long prompt takes longer than their time-out. 0: none.
  std::chrono::milliseconds heartbeat_time{15'000};
  std::chrono::milliseconds drain_time{30'000};  // for running requests after the first signal
  bool signals = false;                 // the first SIGINT or SIGTERM drains, the second stops
  uint32_t id_seed = 0;                 // seed of the ids of requests that have none
  std::function<void()> on_drain = {};  // called once, on the network's thread
  SiteOptions sites = {};               // sites that may use the server beside its own
  unsigned background_threads = 4, answer_threads = 2;
  // Called on the network's thread with the message of an exception that ended a task.
  std::function<void(const std::string&)> report = {};
};

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Returns the threads for handlers. They take tasks until run() returns and drop later ones.
  // Tasks for the network's thread wait for run().
  Threads threads();
  // Read them on the network's thread only.
  const NetworkCounters& counters() const;

  // Opens the port and returns its number. Connections wait for run(). The handler must outlive
  // run(). Error: there is no such host, or the port is taken.
  base::Result<uint16_t> listen(Handler& handler);
  // Runs the network's thread until the server has drained or is stopped. Call it once.
  void run();

  // The following calls are safe on any thread, and more than once.
  // Replaces the handler for all later requests. signals: handle signals as in ServerOptions.
  void hand_over(Handler& handler, bool signals);
  // Closes idle connections at once, busy ones after their answers, and all after `time`. Until
  // then new connections may send one request each. The handler can refuse them
  // (NetworkCounters::draining), and the drain does not wait for their answers.
  void drain(std::chrono::milliseconds time);
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvick::server
