#pragma once
// Publishes events of the prefix cache over ZeroMQ, as vLLM does. A PUB socket sends messages
// [topic, number in 8 bytes, big-endian, batch (kv_event_batch.h)]. Numbers count from 0, so a
// subscriber sees a gap if it misses some. It can then ask a ROUTER socket for the batches from a
// number on. The answer is [number, batch] for each, then the number -1 with an empty batch. The
// answer to a client that reads too slowly ends early: it lacks the last batches and the -1.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/prefix/prefix_events.h"

namespace kvick::server {

struct KvEventOptions {
  std::string endpoint;  // "tcp://*:5557"
  std::string replay;    // endpoint of the ROUTER; empty: none
  std::string topic;
  size_t most_kept = 10'000;  // batches kept for replay, as many as vLLM keeps; 0: none
  size_t most_kept_bytes = size_t{64} << 20;  // of these batches: those of long prompts are large
  // Limit on the messages queued for a slow reader of either socket, which misses further ones.
  int most_unread = 100'000;
};

// Runs one thread, which waits for events and for questions.
class KvEventPublisher {
 public:
  // Error: an endpoint cannot be opened, or kvick was built without ZeroMQ.
  static base::Result<std::unique_ptr<KvEventPublisher>> open(
      const KvEventOptions& options, std::shared_ptr<engine::PrefixEvents> events);
  virtual ~KvEventPublisher() = default;
  // Returns the endpoint, with the port that the system chose for tcp://HOST:*.
  virtual std::string endpoint() const = 0;
  virtual std::string replay_endpoint() const = 0;
};

}  // namespace kvick::server
