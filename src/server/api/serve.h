#pragma once
// A model's service on the network, from opening the port to having drained.

#include <memory>
#include <thread>

#include "server/api/api.h"
#include "server/net/server.h"

namespace kvick::server {

struct ServeOptions {
  ServerOptions network;
  std::string model;  // the id that clients see; not with a ModelHost, as constraint and limits
  bool any_model = false, strict_fields = false;  // as in ApiOptions, as all below
  bool stop_loops = false;
  LoadForm load_form = LoadForm::kSglang;
  ApiKeys keys;
  ClientLimits limits = {};
  ClientCountLimits counts = {};
  std::optional<engine::Pooling> pooling = {};
  size_t response_store_bytes = 64 << 20;
  MakeConstraint constraint;
  std::function<void(uint16_t port)> on_listening;
  std::function<void(const std::string&)> report;
  std::shared_ptr<RequestBook> book = {};
  bool debug = false;
};

// A port that is open while the model is still being loaded: until serve(), all requests get status
// 503, and a signal ends the process as ever.
class OpenPort {
 public:
  // Error: the port cannot be opened.
  static base::Result<std::unique_ptr<OpenPort>> open(ServerOptions network);
  ~OpenPort();
  uint16_t port() const { return port_; }

  // Returns when the server has drained; once. The network of the options has been given to open().
  // The engine's tokenizer and template are used while the service runs.
  void serve(const engine::Engine& engine, engine::Service& service, ServeOptions options);
  // Several models. The host outlives this, and is stopped.
  void serve(ModelHost& models, ServeOptions options);

 private:
  explicit OpenPort(ServerOptions network);

  bool signals_;
  std::unique_ptr<Handler> loading_;
  Server server_;
  uint16_t port_ = 0;
  std::thread thread_;  // the network's
};

// Both at once.
base::Status<> serve(const engine::Engine& engine, engine::Service& service, ServeOptions options);

}  // namespace kvick::server
