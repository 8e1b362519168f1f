// libFuzzer: sends arbitrary bytes to the ports of a publisher of cache events. If the first byte
// is odd, they go unchanged to one of the two ports. If it is even, they go as the frames of a
// message, split at zero bytes, to the port for replays. The publisher must still answer valid
// requests for a replay.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <zmq.h>

#include "server/ops/kv_event_publisher.h"
#include "server/testing/client.h"

namespace {

namespace server = kvick::server;

void* connected(void* context, int type, const std::string& endpoint) {
  void* const socket = zmq_socket(context, type);
  const int wait_ms = 10'000, linger_ms = 0;
  zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
  zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
  if (zmq_connect(socket, endpoint.c_str()) != 0) std::abort();
  return socket;
}

struct Running {
  Running() : events(std::make_shared<kvick::engine::PrefixEvents>()), context(zmq_ctx_new()) {
    publisher = *server::KvEventPublisher::open(
        {.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*"}, events);
    asker = connected(context, ZMQ_REQ, publisher->replay_endpoint());
    dealer = connected(context, ZMQ_DEALER, publisher->replay_endpoint());
  }
  ~Running() {
    zmq_close(asker);
    zmq_close(dealer);
    zmq_ctx_term(context);
  }
  std::shared_ptr<kvick::engine::PrefixEvents> events;
  std::unique_ptr<server::KvEventPublisher> publisher;
  void *context, *asker = nullptr, *dealer = nullptr;
};

uint16_t port_of(const std::string& endpoint) {
  return static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

void send_frames(void* socket, std::string_view bytes) {
  bool more = true;
  while (more) {
    const size_t end = std::min(bytes.find('\0'), bytes.size());
    more = end < bytes.size();
    zmq_send(socket, bytes.data(), end, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
    bytes.remove_prefix(more ? end + 1 : end);
  }
}

// Requests the events from a number that no event has. The answer is only the end marker.
void ask(void* socket) {
  const std::array<uint8_t, 8> never = {0x7F};
  zmq_send(socket, never.data(), never.size(), 0);
  std::array<uint8_t, 16> number = {};
  if (zmq_recv(socket, number.data(), number.size(), 0) != 8 || number[0] != 0xFF) std::abort();
  if (zmq_recv(socket, number.data(), number.size(), 0) != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Running running;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) {
    send_frames(running.dealer, bytes);
  } else {
    server::Client client(port_of(data[0] % 4 == 1 ? running.publisher->endpoint()
                                                   : running.publisher->replay_endpoint()));
    client.send(bytes);
  }
  ask(running.asker);
  return 0;
}
