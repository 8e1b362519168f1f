#pragma once
// Serves a model on the network, from opening the port to the end of draining.

#include <memory>
#include <thread>

#include "server/api/api.h"
#include "server/net/server.h"

namespace kvick::server {

struct ServeOptions {
  ServerOptions network;
  // The model's id for clients; unused with a ModelHost, like constraint and limits.
  std::string model;
  bool any_model = false, strict_fields = false;  // see ApiOptions, for these and all below
  uint32_t max_sequences = 0;
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

// A port that is open while the model is loaded: until serve(), every request gets status 503, and
// a signal ends the process.
class OpenPort {
 public:
  // Error: the port cannot be opened.
  static base::Result<std::unique_ptr<OpenPort>> open(ServerOptions network);
  ~OpenPort();
  uint16_t port() const { return port_; }

  // Serves one model and returns when the server has drained. Call it once. Ignores
  // options.network, which open() has taken already. Uses the engine's tokenizer and template while
  // the service runs.
  void serve(const engine::Engine& engine, engine::Service& service, ServeOptions options);
  // Serves several models. The host must outlive this, and is stopped.
  void serve(ModelHost& models, ServeOptions options);

 private:
  explicit OpenPort(ServerOptions network);

  bool signals_;
  std::unique_ptr<Handler> loading_;
  Server server_;
  uint16_t port_ = 0;
  std::thread thread_;  // the network's thread
};

// Opens the port and serves.
base::Status<> serve(const engine::Engine& engine, engine::Service& service, ServeOptions options);

}  // namespace kvick::server
