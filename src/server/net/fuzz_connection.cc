// libFuzzer: sends arbitrary bytes over a socket, split into writes at each zero byte. The server
// must answer or close the connection, its answers must begin as HTTP does, and it must answer the
// next client.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "server/net/server.h"
#include "server/testing/client.h"

namespace {

namespace server = kvick::server;

// Answers a request with its own method, path and body. The body "stream" gets server-sent events,
// the body "none" no answer at all.
class Echo final : public server::Handler {
 public:
  void handle(server::HttpRequest request, std::shared_ptr<server::Reply> reply) override {
    if (request.body == "none") return;
    if (request.body != "stream")
      return reply->send({.body = request.method + request.target + request.body});
    reply->begin_events({});
    reply->event("data: 1\n\n");
    reply->end_events();
  }
};

struct Running {
  Running() : port(*server.listen(echo)), thread([this] { server.run(); }) {}
  ~Running() {
    server.stop();
    thread.join();
  }
  Echo echo;
  server::Server server{{.port = 0, .most_body_bytes = 4096}};
  uint16_t port;
  std::thread thread;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Running running;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  server::Client client(running.port);
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, bytes.find('\0'));
    client.send(piece);
    bytes.remove_prefix(std::min(piece.size() + 1, bytes.size()));
  }
  client.send_no_more();
  const std::string answer = client.read_to_end();
  if (!answer.empty() && !answer.starts_with("HTTP/1.")) std::abort();
  static uint64_t runs = 0;
  if (++runs % 64 != 0) return 0;
  server::Client next(running.port);
  next.get("/still-there", "Connection: close\r\n");
  if (next.read_to_end().find("GET/still-there") == std::string::npos) std::abort();
  return 0;
}
