#pragma once
// Publishes events of the prefix cache over ZeroMQ, as vLLM does: on a PUB socket the messages
// [topic, number of 8 bytes, the first being the highest, batch (kv_event_batch.h)]. Who misses
// some sees a gap in the numbers, which count from 0, and asks a ROUTER socket for those from a
// number on: it answers each with [number, batch], and then with the number -1 and an empty batch.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/prefix/prefix_events.h"

namespace kvick::server {

struct KvEventOptions {
  std::string endpoint;  // "tcp://*:5557"
  std::string replay;    // the ROUTER's; empty: there is none
  std::string topic;
  size_t most_kept = 10'000;  // batches kept for replay; vLLM keeps as many
};

// One thread, which waits for events and for those who ask.
class KvEventPublisher {
 public:
  // Error: an endpoint cannot be opened, or kvick was built without ZeroMQ.
  static base::Result<std::unique_ptr<KvEventPublisher>> open(
      const KvEventOptions& options, std::shared_ptr<engine::PrefixEvents> events);
  virtual ~KvEventPublisher() = default;
  // Where it listens: the endpoint, with the port that the system chose for tcp://HOST:*.
  virtual std::string endpoint() const = 0;
  virtual std::string replay_endpoint() const = 0;
};

}  // namespace kvick::server
